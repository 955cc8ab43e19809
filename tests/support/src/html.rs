//! Escaped text for HTML reports.

use std::fmt::{self, Display, Write};

/// Escapes text, which may contain anything. Control characters other than line feeds become spaces.
#[derive(Debug, Clone, Copy)]
pub struct HtmlEscaped<'a>(pub &'a str);

impl Display for HtmlEscaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() && c != '\n' => f.write_char(' ')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
