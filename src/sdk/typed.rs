//! From plain functions over serde types to processors, decoded without a detour through a tree and, where the type
//! borrows, without a copy.
//!
//! A function from `Order<'_>` has a different input type for each record's lifetime. A bound like `Fn(T)` names one
//! type, so it cannot take such a function; [`Input`] names the family (`Order<'a>` for every `'a`).

use crate::context::Context;
use crate::failure::Failure;
use crate::output::OutputId;
use crate::processor::{Processor, Tombstones};
use crate::record::Record;
use serde::de::{Deserialize, DeserializeOwned};
use serde::ser::Serialize;
use std::marker::PhantomData;

/// A family of input types, one per lifetime of the record they borrow from. Made by [`borrowed!`](crate::borrowed).
///
/// ```
/// # use transom_sdk::{Failure, Registry};
/// #[derive(serde::Deserialize)]
/// struct Order<'a> { id: &'a str }
/// transom_sdk::borrowed!(Order);
///
/// Registry::new().map_borrowed::<Order>("measure", |order: Order<'_>| Ok::<_, Failure>(order.id.len()));
/// ```
///
/// Without `borrowed!` it does not compile, and the compiler says what to write:
///
/// ```compile_fail,E0277
/// # use transom_sdk::{Failure, Registry};
/// #[derive(serde::Deserialize)]
/// struct Order<'a> { id: &'a str }
///
/// Registry::new().map_borrowed::<Order>("measure", |order: Order<'_>| Ok::<_, Failure>(order.id.len()));
/// ```
///
/// Nor does `map`, whose input must own what it holds:
///
/// ```compile_fail
/// # use transom_sdk::{Failure, Registry};
/// #[derive(serde::Deserialize)]
/// struct Order<'a> { id: &'a str }
/// transom_sdk::borrowed!(Order);
///
/// fn measure(order: Order<'_>) -> Result<usize, Failure> { Ok(order.id.len()) }
/// Registry::new().map("measure", measure);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how it borrows from a record",
    note = "write `transom_sdk::borrowed!(Name);` beside the type, with its bare name, or register with `map` if it borrows nothing"
)]
pub trait Input: 'static {
    /// The type for records that live for `'a`.
    type Value<'a>: Deserialize<'a>;
}

/// The family of a type that borrows nothing.
#[derive(Debug)]
pub struct Owned<T>(PhantomData<fn() -> T>);

impl<T: DeserializeOwned + 'static> Input for Owned<T> {
    type Value<'a> = T;
}

/// Says that a type with one lifetime borrows from the record: `borrowed!(Order);` for `struct Order<'a>`.
#[macro_export]
macro_rules! borrowed {
    ($name:ident) => {
        impl $crate::Input for $name<'static> {
            type Value<'a> = $name<'a>;
        }
    };
}

/// A function from one value to one value.
///
/// ```
/// # use transom_sdk::{Failure, Registry};
/// Registry::new().map("double", |number: u32| Ok::<_, Failure>(number * 2));
/// ```
///
/// It returns a `Result`, also when it cannot fail:
///
/// ```compile_fail,E0271
/// # use transom_sdk::{Failure, Registry};
/// Registry::new().map("double", |number: u32| number * 2);
/// ```
///
/// What it makes is `Serialize`:
///
/// ```compile_fail,E0277
/// # use transom_sdk::{Failure, Registry};
/// struct Doubled(u32);
/// Registry::new().map("double", |number: u32| Ok::<_, Failure>(Doubled(number * 2)));
/// ```
///
/// Under `map_borrowed` it takes the type it is registered with:
///
/// ```compile_fail,E0631
/// # use transom_sdk::{Failure, Registry};
/// #[derive(serde::Deserialize)]
/// struct Order<'a> { id: &'a str }
/// transom_sdk::borrowed!(Order);
///
/// Registry::new().map_borrowed::<Order>("measure", |order: String| Ok::<_, Failure>(order.len()));
/// ```
pub trait MapFunction<In>: Send + Sync + 'static {
    /// What it makes.
    type Out: Serialize;
    /// Calls it.
    ///
    /// # Errors
    /// What the function refuses.
    fn call(&self, input: In) -> Result<Self::Out, Failure>;
}

impl<F, In, Out, E> MapFunction<In> for F
where
    F: Fn(In) -> Result<Out, E> + Send + Sync + 'static,
    Out: Serialize,
    E: Into<Failure>,
{
    type Out = Out;
    fn call(&self, input: In) -> Result<Out, Failure> {
        self(input).map_err(Into::into)
    }
}

/// A function from one value to one value or none.
pub trait FilterMapFunction<In>: Send + Sync + 'static {
    /// What it makes.
    type Out: Serialize;
    /// Calls it; `None` counts as filtered.
    ///
    /// # Errors
    /// What the function refuses.
    fn call(&self, input: In) -> Result<Option<Self::Out>, Failure>;
}

impl<F, In, Out, E> FilterMapFunction<In> for F
where
    F: Fn(In) -> Result<Option<Out>, E> + Send + Sync + 'static,
    Out: Serialize,
    E: Into<Failure>,
{
    type Out = Out;
    fn call(&self, input: In) -> Result<Option<Out>, Failure> {
        self(input).map_err(Into::into)
    }
}

/// A function from one value to any number of values.
pub trait FlatMapFunction<In>: Send + Sync + 'static {
    /// What it makes, in order.
    type Out: IntoIterator<Item: Serialize>;
    /// Calls it; an empty sequence counts as filtered.
    ///
    /// # Errors
    /// What the function refuses.
    fn call(&self, input: In) -> Result<Self::Out, Failure>;
}

impl<F, In, Out, E> FlatMapFunction<In> for F
where
    F: Fn(In) -> Result<Out, E> + Send + Sync + 'static,
    Out: IntoIterator<Item: Serialize>,
    E: Into<Failure>,
{
    type Out = Out;
    fn call(&self, input: In) -> Result<Out, Failure> {
        self(input).map_err(Into::into)
    }
}

/// A function that emits by itself: several outputs, keys, headers, timestamps.
pub trait EmitFunction<In>: Send + Sync + 'static {
    /// Calls it.
    ///
    /// # Errors
    /// What the function refuses.
    fn call(&self, input: In, context: &mut Context<'_>) -> Result<(), Failure>;
}

impl<F, In, E> EmitFunction<In> for F
where
    F: Fn(In, &mut Context<'_>) -> Result<(), E> + Send + Sync + 'static,
    E: Into<Failure>,
{
    fn call(&self, input: In, context: &mut Context<'_>) -> Result<(), Failure> {
        self(input, context).map_err(Into::into)
    }
}

/// How a decoded value goes on: the four shapes a registered function can have.
pub(crate) trait Shape<I: Input>: Send + Sync + 'static {
    fn run(&self, input: I::Value<'_>, context: &mut Context<'_>) -> Result<(), Failure>;
}

pub(crate) struct MapShape<F>(pub(crate) F);
impl<I: Input, F: for<'a> MapFunction<I::Value<'a>>> Shape<I> for MapShape<F> {
    fn run(&self, input: I::Value<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        let output = self.0.call(input)?;
        context.emit(OutputId::DEFAULT).json(&output)
    }
}

pub(crate) struct FilterMapShape<F>(pub(crate) F);
impl<I: Input, F: for<'a> FilterMapFunction<I::Value<'a>>> Shape<I> for FilterMapShape<F> {
    fn run(&self, input: I::Value<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        match self.0.call(input)? {
            Some(output) => context.emit(OutputId::DEFAULT).json(&output),
            None => Ok(()),
        }
    }
}

pub(crate) struct FlatMapShape<F>(pub(crate) F);
impl<I: Input, F: for<'a> FlatMapFunction<I::Value<'a>>> Shape<I> for FlatMapShape<F> {
    fn run(&self, input: I::Value<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        for output in self.0.call(input)? {
            context.emit(OutputId::DEFAULT).json(&output)?;
        }
        Ok(())
    }
}

pub(crate) struct EmitShape<F>(pub(crate) F);
impl<I: Input, F: for<'a> EmitFunction<I::Value<'a>>> Shape<I> for EmitShape<F> {
    fn run(&self, input: I::Value<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        self.0.call(input, context)
    }
}

/// A processor around a function: decodes the value as JSON, calls, encodes.
pub(crate) struct Typed<I, S> {
    shape: std::sync::Arc<S>,
    tombstones: Tombstones,
    input: PhantomData<fn() -> I>,
}

impl<I, S> Typed<I, S> {
    pub(crate) const fn new(shape: std::sync::Arc<S>, tombstones: Tombstones) -> Self {
        Self { shape, tombstones, input: PhantomData }
    }
}

impl<I: Input, S: Shape<I>> Processor for Typed<I, S> {
    fn process(&mut self, record: &Record<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        if record.value().is_none() {
            return self.tombstones.apply(context);
        }
        self.shape.run(record.json()?, context)
    }
}
