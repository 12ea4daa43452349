//! Words of texts and of identifiers, and their comparison with lists.

/// Splits a text into words in lower case, without punctuation.
pub fn words_of_text(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !character.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Splits a name in `snake_case`, `CamelCase` or capitals into words in lower case.
pub fn words_of_name(name: &str) -> Vec<String> {
    let characters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (index, character) in characters.iter().enumerate() {
        let previous = index.checked_sub(1).map(|index| characters[index]);
        let is_next_lower = characters
            .get(index + 1)
            .is_some_and(|next| next.is_lowercase());
        let begins_word = character.is_uppercase()
            && previous.is_some_and(|previous| {
                previous.is_lowercase() || previous.is_uppercase() && is_next_lower
            });
        if begins_word || *character == '_' {
            words.push(String::new());
        }
        if *character != '_' {
            words
                .last_mut()
                .expect("never empty")
                .extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns true if one of the listed terms occurs, or its plural in "s".
///
/// A term of two words is written with a hyphen.
pub fn contains_any(words: &[String], terms: &[&str]) -> bool {
    terms.iter().any(|term| match term.split_once('-') {
        None => words.iter().any(|word| is_equal(word, term)),
        Some((first, second)) => words
            .windows(2)
            .any(|pair| pair[0] == first && is_equal(&pair[1], second)),
    })
}

fn is_equal(word: &str, term: &str) -> bool {
    word.strip_prefix(term)
        .is_some_and(|rest| rest.is_empty() || rest == "s")
}

#[cfg(test)]
mod tests {
    use super::{contains_any, words_of_name, words_of_text};

    #[test]
    fn texts_are_split() {
        assert_eq!(words_of_text("A (b-c), D_2."), ["a", "b", "c", "d", "2"]);
    }

    #[test]
    fn names_are_split() {
        assert_eq!(words_of_name("open_file2"), ["open", "file2"]);
        assert_eq!(words_of_name("_OPEN_FILE"), ["open", "file"]);
        assert_eq!(words_of_name("OpenMPIFile"), ["open", "mpi", "file"]);
    }

    #[test]
    fn terms_are_found_with_their_plurals() {
        let contains = |text: &str, term: &str| contains_any(&words_of_text(text), &[term]);
        assert!(contains("a rank, b", "rank"));
        assert!(contains("two ranks", "rank"));
        assert!(contains("the big\nranks.", "big-rank"));
        assert!(!contains("ranking, prank", "rank"));
        assert!(!contains("rank big", "big-rank"));
    }
}
