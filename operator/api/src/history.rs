use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Nights that a sweep remembers. The operator adds to it and changes nothing that is there. It stays when the sweep is deleted.
#[expect(clippy::duplicated_attributes, reason = "columns of one type are no duplicates")]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "assay.rocks",
    version = "v1alpha1",
    kind = "TuningHistory",
    plural = "tuninghistories",
    namespaced,
    derive = "PartialEq",
    doc = "Nights that a sweep remembers. The operator adds to it and changes nothing that is there.",
    printcolumn(name = "Sweep", type_ = "string", json_path = ".spec.sweep"),
    printcolumn(name = "Nights", type_ = "integer", json_path = ".spec.count"),
    printcolumn(name = "First", type_ = "date", json_path = ".spec.first"),
    printcolumn(name = "Last", type_ = "date", json_path = ".spec.last")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.sweep == oldSelf.sweep && self.count >= oldSelf.count",
        "message": "nights are only added",
    },
]))]
pub struct TuningHistorySpec {
    /// Name of the sweep.
    #[schemars(length(min = 1, max = 63))]
    pub sweep: String,
    /// Number of nights in it.
    pub count: u32,
    /// Its first night.
    pub first: Time,
    /// Its last night.
    pub last: Time,
    /// The nights as JSON lines, each compressed with gzip. `assay sweep history` shows them.
    #[schemars(schema_with = "nights_schema")]
    pub nights: ByteString,
}

/// 192 KiB in base64.
fn nights_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte", "maxLength": 262_144})
}
