//! The table of a team's transforms: name → constructor. One visible line each, no side effect of linking.

use crate::processor::{Processor, Setup, SetupError};
use crate::typed::{
    EmitFunction, EmitShape, FilterMapFunction, FilterMapShape, FlatMapFunction, FlatMapShape, Input, MapFunction, MapShape, Owned, Shape, Typed,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

type Constructor = Arc<dyn Fn(&Setup<'_>) -> Result<Box<dyn Processor>, SetupError> + Send + Sync>;

/// The transforms a binary knows, by name.
#[derive(Clone, Default)]
pub struct Registry {
    constructors: BTreeMap<&'static str, Constructor>,
}

impl Registry {
    /// Returns an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a function from one value to one value; the input type owns what it holds.
    ///
    /// # Panics
    /// Like every registration: when the name is taken or is not snake_case.
    pub fn map<In: DeserializeOwned + 'static, F: MapFunction<In>>(&mut self, name: &'static str, function: F) {
        self.shape::<Owned<In>, _>(name, MapShape(function));
    }

    /// Registers a function from one value that borrows from the record to one value: `map_borrowed::<Order>("clean", clean)`.
    pub fn map_borrowed<I: Input>(&mut self, name: &'static str, function: impl for<'a> MapFunction<I::Value<'a>>) {
        self.shape::<I, _>(name, MapShape(function));
    }

    /// Registers a function from one value to one value or none (filtered).
    pub fn filter_map<In: DeserializeOwned + 'static, F: FilterMapFunction<In>>(&mut self, name: &'static str, function: F) {
        self.shape::<Owned<In>, _>(name, FilterMapShape(function));
    }

    /// Registers a function from one borrowed value to one value or none (filtered).
    pub fn filter_map_borrowed<I: Input>(&mut self, name: &'static str, function: impl for<'a> FilterMapFunction<I::Value<'a>>) {
        self.shape::<I, _>(name, FilterMapShape(function));
    }

    /// Registers a function from one value to any number of values.
    pub fn flat_map<In: DeserializeOwned + 'static, F: FlatMapFunction<In>>(&mut self, name: &'static str, function: F) {
        self.shape::<Owned<In>, _>(name, FlatMapShape(function));
    }

    /// Registers a function from one borrowed value to any number of values.
    pub fn flat_map_borrowed<I: Input>(&mut self, name: &'static str, function: impl for<'a> FlatMapFunction<I::Value<'a>>) {
        self.shape::<I, _>(name, FlatMapShape(function));
    }

    /// Registers a function that emits through the context: several outputs, its own keys, headers, timestamps.
    pub fn emit<In: DeserializeOwned + 'static, F: EmitFunction<In>>(&mut self, name: &'static str, function: F) {
        self.shape::<Owned<In>, _>(name, EmitShape(function));
    }

    /// Registers a function over a borrowed value that emits through the context.
    pub fn emit_borrowed<I: Input>(&mut self, name: &'static str, function: impl for<'a> EmitFunction<I::Value<'a>>) {
        self.shape::<I, _>(name, EmitShape(function));
    }

    /// Registers a constructor of [`Processor`] objects: configuration, several outputs, fields of its own.
    pub fn processor<P, C>(&mut self, name: &'static str, constructor: C)
    where
        P: Processor + 'static,
        C: Fn(&Setup<'_>) -> Result<P, SetupError> + Send + Sync + 'static,
    {
        self.insert(name, Arc::new(move |setup| Ok(Box::new(constructor(setup)?) as Box<dyn Processor>)));
    }

    fn shape<I: Input, S: Shape<I>>(&mut self, name: &'static str, shape: S) {
        let shape = Arc::new(shape);
        self.insert(name, Arc::new(move |setup| Ok(Box::new(Typed::<I, S>::new(Arc::clone(&shape), setup.tombstones())))));
    }

    fn insert(&mut self, name: &'static str, constructor: Constructor) {
        let snake_case = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        assert!(snake_case, "a processor's name is snake_case: {name:?}");
        assert!(self.constructors.insert(name, constructor).is_none(), "two processors are registered as {name:?}");
    }

    /// Returns the registered names in alphabetical order.
    pub fn names(&self) -> Vec<&'static str> {
        self.constructors.keys().copied().collect()
    }

    /// Builds a processor.
    ///
    /// # Errors
    /// [`SetupError::UnknownProcessor`], or what the constructor refuses.
    pub fn construct(&self, name: &str, setup: &Setup<'_>) -> Result<Box<dyn Processor>, SetupError> {
        let constructor = self.constructors.get(name).ok_or_else(|| SetupError::UnknownProcessor { name: name.to_owned() })?;
        constructor(setup)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registry").field(&self.names()).finish()
    }
}
