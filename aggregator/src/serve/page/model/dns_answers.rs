//! Rows of the DNS answers for each name.

use parallax_diagnosis::findings::NameView;

/// DNS answers for one name.
#[derive(Debug)]
pub(super) struct NameRows {
    pub(super) name: String,
    pub(super) answers: Vec<NameRow>,
}

#[derive(Debug)]
pub(super) struct NameRow {
    pub(super) resolver: String,
    pub(super) public: bool,
    pub(super) addresses: String,
    pub(super) meaning: String,
    pub(super) queried_as: Option<String>,
    pub(super) vantages: String,
}

impl NameRows {
    pub(super) fn of(view: &NameView) -> Self {
        let joined = |words: Vec<String>, none: &str| {
            if words.is_empty() {
                none.to_owned()
            } else {
                words.join(", ")
            }
        };
        let answers = view
            .answers
            .iter()
            .map(|answer| NameRow {
                resolver: answer.resolver.to_string(),
                public: answer.public,
                addresses: joined(answer.addresses.iter().map(ToString::to_string).collect(), "none"),
                meaning: answer.meaning.clone(),
                queried_as: answer.queried_name.clone(),
                vantages: joined(answer.vantages.iter().map(ToString::to_string).collect(), "none"),
            })
            .collect();
        Self {
            name: view.name.clone(),
            answers,
        }
    }
}
