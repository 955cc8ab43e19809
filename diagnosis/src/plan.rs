//! From topology to what each vantage should probe.
