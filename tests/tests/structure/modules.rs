//! Reads the imports between the top-level modules of a crate from its parsed source.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Attribute, Expr, ImplItemFn, Item, ItemMod, ItemUse, Lit, Meta, Token, UseTree, Visibility,
    buffer::{Cursor, TokenBuffer},
    ext::IdentExt as _,
    punctuated::Punctuated,
    visit::{self, Visit},
};

/// For each top-level module, the modules that it imports from, with the importing files and the imported names.
pub(crate) type Imports = BTreeMap<String, BTreeMap<String, BTreeMap<String, BTreeSet<String>>>>;

/// Reads a crate from its root file. Test modules and items are skipped.
pub(crate) fn imports(root: &Path) -> Imports {
    let folder = root.parent().unwrap();
    let mut reader = Reader {
        root: folder.to_owned(),
        file: root.to_owned(),
        children: folder.to_owned(),
        module: Vec::new(),
        modules: BTreeSet::new(),
        found: Vec::new(),
    };
    reader.read();
    let mut imports: Imports = reader
        .modules
        .iter()
        .map(|module| (module.clone(), BTreeMap::new()))
        .collect();
    for Found { from, to, file } in reader.found {
        let (Some(target), Some(name)) = (to.first(), to.last()) else {
            continue;
        };
        if *target != from && reader.modules.contains(target) {
            let arrow = imports
                .entry(from)
                .or_default()
                .entry(target.clone())
                .or_default();
            arrow.entry(file).or_default().insert(name.clone());
        }
    }
    imports
}

/// A path in the source, relative to the crate's root.
struct Found {
    from: String,
    to: Vec<String>,
    file: String,
}

struct Reader {
    root: PathBuf,
    file: PathBuf,
    /// Directory of the current module's children.
    children: PathBuf,
    module: Vec<String>,
    modules: BTreeSet<String>,
    found: Vec<Found>,
}

impl Reader {
    fn read(&mut self) {
        let text =
            fs::read_to_string(&self.file).unwrap_or_else(|error| panic!("{}: {error}", self.file.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", self.file.display()));
        if !tests_only(&parsed.attrs) {
            self.visit_file(&parsed);
        }
    }

    /// Records a path that starts with `crate`, `self` or `super`.
    fn path(&mut self, path: &[String]) {
        let Some(from) = self.module.first() else {
            return;
        };
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => {
                base.clear();
                rest = &path[1..];
            }
            Some("self" | "super") => {
                while let Some(first @ ("self" | "super")) = rest.first().map(String::as_str) {
                    if first == "super" {
                        base.pop();
                    }
                    rest = &rest[1..];
                }
            }
            _ => return,
        }
        base.extend(rest.iter().filter(|name| *name != "self").cloned());
        self.found.push(Found {
            from: from.clone(),
            to: base,
            file: self
                .file
                .strip_prefix(&self.root)
                .unwrap_or(&self.file)
                .display()
                .to_string(),
        });
    }

    fn tree(&mut self, prefix: &[String], tree: &UseTree) {
        let with = |name: String| [prefix, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.path(&with(name.ident.to_string())),
            UseTree::Rename(rename) => self.path(&with(rename.ident.to_string())),
            UseTree::Glob(_) => self.path(prefix),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(prefix, tree);
                }
            }
        }
    }

    /// Finds paths in the tokens of a macro call, which are not parsed.
    fn tokens(&mut self, mut cursor: Cursor<'_>) {
        while !cursor.eof() {
            if let Some((inside, _, _, after)) = cursor.any_group() {
                self.tokens(inside);
                cursor = after;
                continue;
            }
            let Some((first, mut after)) = cursor.ident() else {
                let Some((_, after)) = cursor.token_tree() else {
                    return;
                };
                cursor = after;
                continue;
            };
            let mut path = vec![first.to_string()];
            while let Some((name, next)) = separator(after).and_then(Cursor::ident) {
                path.push(name.unraw().to_string());
                after = next;
            }
            if path.len() > 1 {
                self.path(&path);
            }
            cursor = after;
        }
    }
}

/// Returns the tokens after `::`.
fn separator(cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    let (first, cursor) = cursor.punct()?;
    let (second, cursor) = cursor.punct()?;
    (first.as_char() == ':' && second.as_char() == ':').then_some(cursor)
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !tests_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !tests_only(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.unraw().to_string();
        if self.module.is_empty() {
            self.modules.insert(name.clone());
        }
        let (file, children) = (self.file.clone(), self.children.clone());
        self.module.push(name.clone());
        if item.content.is_some() {
            self.children = children.join(&name);
            visit::visit_item_mod(self, item);
        } else {
            let named = path_attribute(&item.attrs).map(|path| file.parent().unwrap().join(path));
            let flat = children.join(format!("{name}.rs"));
            self.file = match named {
                Some(named) => named,
                None if flat.is_file() => flat,
                None => children.join(&name).join("mod.rs"),
            };
            // A file named by an attribute is a `mod.rs` to its children.
            self.children = match path_attribute(&item.attrs) {
                Some(_) => self.file.parent().unwrap().to_owned(),
                None => children.join(&name),
            };
            self.read();
        }
        self.module.pop();
        (self.file, self.children) = (file, children);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path
            .segments
            .iter()
            .map(|segment| segment.ident.unraw().to_string())
            .collect();
        if names.len() > 1 {
            self.path(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(TokenBuffer::new2(call.tokens.clone()).begin());
    }

    /// `pub(in crate::module)` is not an import.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

fn tests_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<Meta>().is_ok_and(|meta| is_test(&meta))
    })
}

/// Reports whether this is `test`, or `any` or `all` of it and something else.
fn is_test(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("any") || list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().any(is_test)),
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
