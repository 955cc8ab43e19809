//! Nulls in API objects, which are equivalent to missing fields.

use serde_json::Value;

/// Removes nulls. The API server writes some empty lists as null (`endpoints: null`).
pub fn remove_nulls(value: &mut Value) {
    remove_nulls_to_depth(value, 0);
}

/// Leaves deeper nesting than any API object has unchanged.
fn remove_nulls_to_depth(value: &mut Value, depth: usize) {
    if depth > 32 {
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields
                .values_mut()
                .for_each(|field| remove_nulls_to_depth(field, depth + 1));
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            for item in items {
                remove_nulls_to_depth(item, depth + 1);
            }
        }
        _ => {}
    }
}
