//! The registry: one visible line a processor, name → constructor.
//!
//! Never links anything by side effect: what is not named here does not exist. See `README.md` for how to add one.

mod clean_orders;
mod clean_restaurant_orders;
mod split_order_lines;

use transom_sdk::Registry;

/// Returns the processors of the binary `transom`.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.map_borrowed::<clean_orders::Order>("clean_orders", clean_orders::clean_orders);
    registry.map("clean_restaurant_orders", clean_restaurant_orders::clean_restaurant_orders);
    registry.processor("split_order_lines", split_order_lines::SplitOrderLines::new);
    registry
}

#[cfg(test)]
mod tests {
    // Goal: nobody registers a processor without a pipeline to copy. Method: the folder's pipeline.yaml names it.
    #[test]
    fn every_registered_processor_has_a_pipeline_that_runs_it() {
        let folder = env!("CARGO_MANIFEST_DIR");
        for name in super::registry().names() {
            let path = std::path::Path::new(folder).join(name).join("pipeline.yaml");
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(text.contains(&format!("process: {name}")), "{} does not run {name}", path.display());
        }
    }
}
