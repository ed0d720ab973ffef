//! Embeds the data in the page.

use super::ReportData;

/// The template's placeholder element for the data, exactly as in `web/src/report/body.html`.
const PLACE: &str = r#"<script id="run-data" type="application/json">{}</script>"#;

/// Why no page could be built. wansan embeds its template, so this is an internal error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The template has no placeholder for the data, or several.
    #[error("the report's template has {0} places for the data instead of one: build web/ again")]
    Places(usize),
    /// The data cannot be written as JSON.
    #[error("the report's data cannot be written as JSON: {0}")]
    Json(String),
}

/// Embeds `data` in the page that `web/` builds.
///
/// The data is in a `<script>` element, whose text a browser does not decode: each `<` is
/// written `\u003c`, so that no title or parameter can end the element or open a comment (HTML
/// Living Standard §4.12.1.3).
///
/// # Errors
/// [`PageError`] if `template` is not the page that `web/` builds, or `data` cannot be written as JSON.
pub fn html(template: &str, data: &ReportData) -> Result<String, PageError> {
    let mut parts = template.split(PLACE);
    let (Some(before), Some(after), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(PageError::Places(template.matches(PLACE).count()));
    };
    let json = serde_json::to_string(data).map_err(|error| PageError::Json(error.to_string()))?;
    let open = PLACE.trim_end_matches("{}</script>");
    let json = json.replace('<', "\\u003c");
    Ok(format!("{before}{open}{json}</script>{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{RunRecord, data};
    use serde_json::Value;
    use std::collections::BTreeMap;
    use wansan_schema::{Manifest, Results};

    fn page(template: &str, title: &str) -> Result<String, PageError> {
        let results = Results {
            title: title.to_owned(),
            ..Results::default()
        };
        let run = RunRecord {
            manifest: &Manifest::default(),
            results: &results,
            charts: &BTreeMap::new(),
        };
        html(template, &data(&run))
    }

    const TEMPLATE: &str = concat!(
        "<main></main>",
        r#"<script id="run-data" type="application/json">{}</script>"#,
        "<script>show()</script>"
    );

    #[test]
    fn hostile_text_stays_text() {
        let title = "</script><!--<script>alert(1)</script>";
        let page = page(TEMPLATE, title).unwrap();
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<!--"));
        let json = page.split(r#"json">"#).nth(1).unwrap();
        let json = json.split("</script>").next().unwrap();
        let read: Value = serde_json::from_str(json).unwrap();
        assert_eq!(read["title"], title);
    }

    #[test]
    fn a_template_without_its_place_is_refused() {
        assert_eq!(page("<html></html>", ""), Err(PageError::Places(0)));
        let twice = TEMPLATE.repeat(2);
        assert_eq!(page(&twice, ""), Err(PageError::Places(2)));
    }

    #[test]
    fn the_template_of_web_has_the_place() {
        let template = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../web/src/report/body.html"
        );
        let template = std::fs::read_to_string(template).unwrap();
        assert_eq!(template.matches(PLACE).count(), 1);
    }
}
