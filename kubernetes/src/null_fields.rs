//! Nulls in objects of the API, which mean what a missing field means.

use serde_json::Value;

/// Takes nulls away: the API server writes an empty list as null here and there (`endpoints: null`).
pub fn without_nulls(value: &mut Value) {
    to_depth(value, 0);
}

/// What nests deeper than any object of the API is left as it is.
fn to_depth(value: &mut Value, depth: usize) {
    if depth > 32 {
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(|field| to_depth(field, depth + 1));
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            for item in items {
                to_depth(item, depth + 1);
            }
        }
        _ => {}
    }
}
