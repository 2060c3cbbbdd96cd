use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A RocksDB configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Name in plans, records and verdicts.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Options of the whole database, with RocksDB's names and value syntax.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 128))]
    pub db_options: BTreeMap<String, OptionValue>,
    /// Options of column families, with RocksDB's names and value syntax. If two entries match a family, the later one
    /// wins; in a struct such as `block_based_table_factory`, it changes only the keys it names.
    #[serde(default)]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub column_families: Vec<FamilyOptionsSpec>,
    /// The cache of uncompressed blocks. If not set, RocksDB's default: 32 MiB for each column family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_cache: Option<BlockCacheSpec>,
    /// RocksDB's write options, with its names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_options: Option<WriteOptionsSpec>,
    /// Workload behaviour that is part of the config, under the keys that the workload declares.
    #[serde(default)]
    #[schemars(schema_with = "policy_schema")]
    pub policy: BTreeMap<String, String>,
    /// Bench image for this config: a declared difference in code. All other configs run the bench of the
    /// installation. For a local run, pass the bench binary with `--bench NAME=PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Revision of the source that the image was built from, such as a commit. It is shown beside the image and changes nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_./+]*[A-Za-z0-9])?$"))]
    pub revision: Option<String>,
}

pub(crate) fn policy_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 256},
    })
}

/// The value of an option: an integer, or a string in RocksDB's syntax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    Integer(i64),
    Text(String),
}

impl OptionValue {
    pub fn to_rocksdb(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Text(value) => value.clone(),
        }
    }
}

impl JsonSchema for OptionValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OptionValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "maxLength": 4096,
        })
    }
}

/// Options for the column families that match a name or glob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FamilyOptionsSpec {
    /// Column family names, or globs such as `*_trie_nodes`. A glob that matches nothing is an error.
    #[schemars(length(min = 1, max = 32), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub r#match: Vec<String>,
    /// Options, with RocksDB's names and value syntax.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 128))]
    pub options: BTreeMap<String, OptionValue>,
}

/// The cache of uncompressed blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockCacheSpec {
    /// Capacity: a quantity such as 512Mi, or a number of bytes.
    #[schemars(schema_with = "crate::placement::quantity_schema")]
    pub size: Quantity,
    /// Shared: one cache of this size for all column families. Private: one of this size for each.
    #[serde(default)]
    pub sharing: CacheSharing,
}

/// Whether column families share a block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CacheSharing {
    #[default]
    Shared,
    Private,
}

/// RocksDB's write options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteOptionsSpec {
    /// Every write waits until the write-ahead log is on the device.
    #[serde(default)]
    pub sync: bool,
    /// Writes skip the write-ahead log.
    #[serde(default, rename = "disableWAL")]
    pub disable_wal: bool,
}
