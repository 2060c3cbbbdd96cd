//! The list of versions that a sweep has.

use assay_api::{Candidate, TuningSweep, bounds};
use serde_json::Value;

use crate::validate::{FieldPath, Problem, schema};

/// Reads what `spec.bisect.candidates` is to be.
pub fn read(document: &Value) -> Result<Vec<Candidate>, Vec<Problem>> {
    let root = FieldPath::root();
    let schema = assay_api::schema::<TuningSweep>();
    let mut problems = match &schema {
        Ok(schema) => {
            let list = &schema["properties"]["spec"]["properties"]["bisect"]["properties"]["candidates"];
            schema::check(list, document, &root)
        }
        Err(error) => vec![Problem::error(root.clone(), format!("can't build the schema of a sweep: {error}"))],
    };
    if problems.is_empty() {
        match serde_json::from_value(document.clone()) {
            Ok(candidates) => return Ok(candidates),
            Err(error) => problems.push(Problem::error(root, error.to_string())),
        }
    }
    Err(problems)
}

/// Adds a version as the newest, in the place of what was said of its revision before. Where there are too many, the oldest fall out.
#[must_use]
pub fn with(candidates: &[Candidate], new: Candidate) -> Vec<Candidate> {
    let same = |own: &Candidate| own.subject == new.subject && own.revision == new.revision;
    let is_known = |own: &Candidate| same(own) && (own.revision.is_some() || own.image == new.image);
    let mut all = candidates.to_vec();
    match all.iter().position(is_known) {
        Some(place) => all[place] = new,
        None => all.push(new),
    }
    let surplus = all.len().saturating_sub(bounds::CANDIDATES);
    all.drain(..surplus);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn candidate(image: &str, revision: Option<&str>) -> Candidate {
        Candidate { image: image.to_owned(), revision: revision.map(str::to_owned), subject: None, weight: 1 }
    }

    #[test]
    fn a_list_is_what_a_sweep_may_have() {
        let listed = json!([{"image": "r/a:1", "revision": "one"}, {"image": "r/a:2"}]);
        assert_eq!(read(&listed).unwrap(), [candidate("r/a:1", Some("one")), candidate("r/a:2", None)]);
        for (wrong, expected) in [
            (json!({"candidates": []}), "must be a list"),
            (json!([]), "has 0 entries"),
            (json!([{"revison": "one", "image": "r/a"}]), "[0].revison: unknown field"),
            (json!([{"image": 3}]), "[0].image: "),
        ] {
            let said: Vec<String> = read(&wrong).unwrap_err().iter().map(ToString::to_string).collect();
            assert!(said.len() == 1 && said[0].contains(expected), "{wrong}: {said:?}");
        }
    }

    #[test]
    fn the_newest_is_last_and_known_ones_stay_where_they_are() {
        let (one, two) = (candidate("r/a:1", Some("one")), candidate("r/a:2", Some("two")));
        let all = with(&with(&[], one.clone()), two.clone());
        assert_eq!(all, [one.clone(), two.clone()]);
        // A build that ran again.
        let again = candidate("r/a:1b", Some("one"));
        assert_eq!(with(&all, again.clone()), [again, two.clone()]);
        assert_eq!(with(&all, two.clone()), all);
        let of_another = Candidate { subject: Some("main".to_owned()), ..one.clone() };
        assert_eq!(with(&all, of_another).len(), 3);
        let bare = candidate("r/a:3", None);
        assert_eq!(with(&with(&all, bare.clone()), bare).len(), 3);
        let many = (0..bounds::CANDIDATES).map(|number| candidate(&format!("r/a:{number}"), None));
        let many = with(&many.collect::<Vec<_>>(), one.clone());
        assert_eq!((many.len(), many[0].image.as_str(), many.last()), (bounds::CANDIDATES, "r/a:1", Some(&one)));
    }
}
