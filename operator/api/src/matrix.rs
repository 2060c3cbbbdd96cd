use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::config::policy_schema;
use crate::{BlockCacheSpec, FamilyOptionsSpec, OptionValue, WriteOptionsSpec, bounds};

/// Configs as combinations: each takes one value of each axis, and is named after them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Matrix {
    /// What varies. The values of the last axis change fastest; if two axes set the same option, the later one wins.
    #[schemars(length(min = 1, max = bounds::AXES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub axes: Vec<MatrixAxis>,
    /// Combinations to leave out, each as a map from names of axes to names of their values. An entry need not name
    /// every axis: it leaves out all combinations that have the values it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "exclude_schema")]
    pub exclude: Vec<BTreeMap<String, OptionValue>>,
}

fn exclude_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": bounds::AXES,
            "additionalProperties": generator.subschema_for::<OptionValue>(),
        },
    })
}

/// One thing that varies in a matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MatrixAxis {
    /// A short name: the names of configs have it, next to the value's.
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The values that it takes.
    #[schemars(length(min = 1, max = bounds::CONFIGS - 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<MatrixValue>,
}

/// One value of an axis: what it sets in its configs, with the fields of a config. One that sets nothing keeps what the
/// baseline has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MatrixValue {
    /// Name in the names of configs and in `exclude`. If not set, it is made of what the value sets: 64M becomes 64m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// Options of the whole database, with RocksDB's names and value syntax.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub db_options: BTreeMap<String, OptionValue>,
    /// Options of column families, with RocksDB's names and value syntax.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub column_families: Vec<FamilyOptionsSpec>,
    /// The cache of uncompressed blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_cache: Option<BlockCacheSpec>,
    /// RocksDB's write options, with its names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_options: Option<WriteOptionsSpec>,
    /// Workload behaviour that is part of the config, under the keys that the workload declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "policy_schema")]
    pub policy: BTreeMap<String, String>,
    /// Bench image: a declared difference in code. For a local run, pass the bench binary with `--bench NAME=PATH`, where
    /// NAME is that of this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Revision of the source that the image was built from, such as a commit. It is shown beside the image and changes nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_./+]*[A-Za-z0-9])?$"))]
    pub revision: Option<String>,
}
