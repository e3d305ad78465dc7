//! Suites beyond one crate: see the README beside this file. This file holds what several suites need.

pub mod late;
pub mod orders;
