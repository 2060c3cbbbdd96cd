//! What every page has around its contents.

use std::fmt::Write as _;

use super::escape;

/// Nothing may be loaded, whatever a name in the report contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// A whole page of these parts, which are markup already. `first` is the section that readers come for.
pub(crate) fn page(title: &str, first: &str, header: &str, sections: &str, footer: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>{}: Assay report</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#{first}\">Skip to the {first}</a>\n<header>\n{header}</header>\n<main>\n{sections}\
         </main>\n<footer>\n<p>{footer}</p>\n</footer>\n</body>\n</html>\n",
        escape(title),
        include_str!("style.css")
    )
}

pub(crate) fn section(out: &mut String, id: &str, title: &str, body: &str) {
    let _ = write!(out, "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n{body}</section>\n");
}
