//! Sets of HTTP statuses in their written form.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The statuses that count as success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ExpectedStatus {
    /// Any final response below 500; the default. A front that routes the host responds; a 401 or 404 is the
    /// application's business unless the target says otherwise.
    Below500,
    /// One of these inclusive ranges.
    Ranges(Vec<(u16, u16)>),
}

impl ExpectedStatus {
    /// Whether a status counts as success.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        match self {
            Self::Below500 => status < 500,
            Self::Ranges(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&status)),
        }
    }
}

/// The string is not a set of statuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected statuses like \"200\", \"200-299,404\", \"2xx\" or \"<500\", got {0:?}")]
pub struct InvalidStatuses(String);

impl TryFrom<String> for ExpectedStatus {
    type Error = InvalidStatuses;

    fn try_from(value: String) -> Result<Self, InvalidStatuses> {
        let wrong = || InvalidStatuses(value.clone());
        let status = |text: &str| {
            text.parse::<u16>()
                .ok()
                .filter(|s| (100..=599).contains(s))
                .ok_or_else(wrong)
        };
        if value == "<500" {
            return Ok(Self::Below500);
        }
        let ranges = value
            .split(',')
            .map(str::trim)
            .map(|part| {
                if let Some(hundreds) = part.strip_suffix("xx") {
                    let low = status(&format!("{hundreds}00"))?;
                    return Ok((low, low + 99));
                }
                let (low, high) = part.split_once('-').unwrap_or((part, part));
                let (low, high) = (status(low)?, status(high)?);
                if low > high { Err(wrong()) } else { Ok((low, high)) }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self::Ranges(ranges))
    }
}

impl From<ExpectedStatus> for String {
    fn from(value: ExpectedStatus) -> Self {
        value.to_string()
    }
}

impl fmt::Display for ExpectedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below500 => f.write_str("<500"),
            Self::Ranges(ranges) => {
                for (i, (low, high)) in ranges.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    if low == high {
                        write!(f, "{comma}{low}")?;
                    } else {
                        write!(f, "{comma}{low}-{high}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(text: &str) -> Result<ExpectedStatus, InvalidStatuses> {
        ExpectedStatus::try_from(text.to_owned())
    }

    #[test]
    fn status_sets_are_written_as_people_write_them() {
        assert!(statuses("2xx").unwrap().contains(204));
        assert!(!statuses("2xx").unwrap().contains(301));
        assert!(statuses("200-299,404").unwrap().contains(404));
        assert!(statuses("<500").unwrap().contains(404));
        assert!(!statuses("<500").unwrap().contains(503));
        for wrong in ["", "20", "299-200", "abc", "7xx", "200,"] {
            assert!(statuses(wrong).is_err(), "{wrong:?}");
        }
    }
}
