use std::fmt;

/// Where in a document something stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Segment>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    Key(String),
    Index(usize),
}

impl FieldPath {
    /// The document itself.
    pub fn root() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.with(Segment::Key(key.into()))
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    /// The path with keys that need no quotes, as they are written in messages: `a.b`.
    #[must_use]
    pub fn keys(&self, dotted: &str) -> Self {
        dotted.split('.').fold(self.clone(), |path, key| path.key(key))
    }

    pub fn of(segments: &[Segment]) -> Self {
        Self(segments.to_vec())
    }

    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Of what this is a part; `None` for the document itself.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.split_last().map(|(_, above)| Self(above.to_vec()))
    }

    /// Whether this is `path` or a part of it.
    pub fn is_within(&self, path: &Self) -> bool {
        self.0.starts_with(&path.0)
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if !plain(key) => write!(f, "[{key:?}]")?,
                Segment::Key(key) if position == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The experiment is refused.
    Error,
    /// The experiment runs, and disappoints.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something to say about a field: what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub path: FieldPath,
    pub severity: Severity,
    pub message: String,
    /// The name of the field is at fault, not its value.
    pub at_key: bool,
}

impl Problem {
    pub fn error(path: FieldPath, message: impl Into<String>) -> Self {
        Self { path, severity: Severity::Error, message: message.into(), at_key: false }
    }

    pub fn warning(path: FieldPath, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, message) }
    }

    pub fn note(path: FieldPath, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(path, message) }
    }

    /// Points at the field's name.
    #[must_use]
    pub fn at_key(mut self) -> Self {
        self.at_key = true;
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity {
            Severity::Error => {}
            Severity::Warning => f.write_str("warning: ")?,
            Severity::Note => f.write_str("note: ")?,
        }
        if !self.path.segments().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_the_file() {
        let path = FieldPath::root().keys("spec.configs").index(1).keys("options.write_buffer_size");
        assert_eq!(path.to_string(), "spec.configs[1].options.write_buffer_size");
        let odd = FieldPath::root().keys("metadata.labels").key("assay.rocks/x").key("");
        assert_eq!(odd.to_string(), r#"metadata.labels["assay.rocks/x"][""]"#);
        let problem = Problem::warning(path, "too small: use 1");
        assert_eq!(problem.to_string(), "warning: spec.configs[1].options.write_buffer_size: too small: use 1");
        assert_eq!(Problem::error(FieldPath::root(), "empty").to_string(), "empty");
    }
}
