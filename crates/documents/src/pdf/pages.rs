//! Finds the pages of a PDF, in order.

use std::{collections::HashSet, rc::Rc};

use super::{
    file::File,
    object::{Dict, Object},
};

/// Lists of pages within lists of pages.
const MAX_NESTING: usize = 64;

/// A page, with what it inherits.
pub(crate) struct Page {
    pub(crate) dict: Dict,
    /// The fonts and forms that its content names.
    pub(crate) resources: Rc<Dict>,
}

/// Goes through all pages. A list or a page that is named twice is gone through once, so the walk ends.
pub(crate) fn for_each(file: &File<'_>, mut visit: impl FnMut(&Page)) {
    let mut any = false;
    let mut seen = HashSet::new();
    let root = vec![file.root().get(b"Pages").clone()].into_iter();
    let mut lists = vec![(root, Rc::new(Dict::default()))];
    while let Some((kids, inherited)) = lists.last_mut() {
        let Some(kid) = kids.next() else {
            lists.pop();
            continue;
        };
        if let Object::Reference(number) = kid
            && !seen.insert(number)
        {
            continue;
        }
        let Some(dict) = file.resolve(kid).into_dict() else { continue };
        let resources = resources(file, &dict).unwrap_or_else(|| inherited.clone());
        match file.lookup(&dict, b"Kids") {
            Object::Array(kids) if lists.len() < MAX_NESTING => lists.push((kids.into_iter(), resources)),
            Object::Array(_) => {}
            _ => {
                any = true;
                visit(&Page { dict, resources });
            }
        }
    }
    if !any {
        for_each_loose(file, visit);
    }
}

/// The pages of a file whose list of them is lost: those that lie around in it.
fn for_each_loose(file: &File<'_>, mut visit: impl FnMut(&Page)) {
    for number in file.numbers() {
        if let Some(dict) = file.resolve(Object::Reference(number)).into_dict()
            && dict.has_name(b"Type", b"Page")
        {
            let resources = resources(file, &dict).unwrap_or_default();
            visit(&Page { dict, resources });
        }
    }
}

fn resources(file: &File<'_>, dict: &Dict) -> Option<Rc<Dict>> {
    file.lookup(dict, b"Resources").into_dict().map(Rc::new)
}
