//! Did you mean …?

/// The known name that is nearest to a mistyped one, if any is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|known| (strsim::levenshtein(name, known), known));
    distances.min().filter(|(distance, known)| 2 * distance <= known.len()).map(|(_, known)| known)
}
