use serde_json::Value;

/// Which objects a list or a watch is of.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// Empty: all of them.
    pub namespace: String,
    labels: Vec<(String, Option<String>)>,
    fields: Vec<(String, String)>,
}

impl Selector {
    /// By labels such as `a=b,c`, and fields such as `metadata.name=x`.
    pub fn new(namespace: &str, labels: &str, fields: &str) -> Self {
        let parts =
            |text: &str| text.split(',').filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect::<Vec<_>>();
        let labels = parts(labels).into_iter().map(|part| match part.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.trim_start_matches('=').to_owned())),
            None => (part, None),
        });
        let fields = parts(fields).into_iter().filter_map(|part| {
            part.split_once('=').map(|(path, value)| (format!("/{}", path.replace('.', "/")), value.to_owned()))
        });
        Self { namespace: namespace.to_owned(), labels: labels.collect(), fields: fields.collect() }
    }

    pub fn matches(&self, object: &Value) -> bool {
        let is_there = self.namespace.is_empty() || object["metadata"]["namespace"] == self.namespace.as_str();
        is_there
            && self.labels.iter().all(|(name, value)| match (&object["metadata"]["labels"][name], value) {
                (Value::String(found), Some(value)) => found == value,
                (found, None) => found.is_string(),
                _ => false,
            })
            && self
                .fields
                .iter()
                .all(|(path, value)| object.pointer(path).and_then(Value::as_str).unwrap_or_default() == value)
    }
}
