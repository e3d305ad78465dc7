//! Suites beyond one crate: see the README beside this file.
