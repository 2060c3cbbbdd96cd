use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{TuningExperiment, TuningHistory, TuningSweep, TuningTrial};

/// Every `CustomResourceDefinition` of this API as it is committed and installed.
pub fn crds() -> Result<Vec<Value>, serde_json::Error> {
    Ok(vec![
        unseen(definition::<TuningExperiment>()?),
        unseen(definition::<TuningSweep>()?),
        definition::<TuningHistory>()?,
        definition::<TuningTrial>()?,
    ])
}

/// With the status of an object that no operator has seen: without any, kstatus takes it for done.
fn unseen(mut crd: Value) -> Value {
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["default"] =
        json!({"observedGeneration": -1});
    crd
}

/// The `OpenAPI` schema that an object of this kind must have. Without metadata, which Kubernetes knows.
pub fn schema<T: CustomResourceExt>() -> Result<Value, serde_json::Error> {
    let mut crd = definition::<T>()?;
    Ok(crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").map(Value::take).unwrap_or_default())
}

fn definition<T: CustomResourceExt>() -> Result<Value, serde_json::Error> {
    let mut crd = serde_json::to_value(T::crd())?;
    tidy(&mut crd);
    Ok(crd)
}

/// Turns what the derive writes into what the API conventions ask for.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // Null means absent, as everywhere in Kubernetes: the API server drops it from fields that are not nullable.
            if object.get("nullable").is_some_and(Value::is_boolean) {
                object.remove("nullable");
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            // A format that Kubernetes does not know is ignored with a warning. JSON integers there are int64.
            if let Some(format) = object.get_mut("format")
                && format.as_str().is_some_and(|name| name.starts_with("uint"))
            {
                *format = "int64".into();
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) => {
            // Bounds are floats in the schema's type. Below 2^53 the integer is the same number, and readable.
            if let Some(float) = number.as_f64()
                && number.is_f64()
                && float.fract() == 0.0
                && float.abs() < 9_007_199_254_740_992.0
            {
                *schema = Value::from(float as i64);
            }
        }
        _ => {}
    }
}
