//! References replaced by what they refer to, since few vendors follow them everywhere.

use super::{
    MAX_DEPTH, MAX_OUTPUT, Unfit,
    merge::both,
    shape::canonical_type,
    tree::{Map, Node},
};

/// How often one reference may be followed within itself: a tree is shown with its children and their children.
const MAX_REPEATS: usize = 2;

/// Keywords that identify schemas, or hold schemas for references.
const IDENTITY: [&str; 12] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "$defs",
    "definitions",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
];

/// What a keyword's value holds.
pub(super) enum Holds {
    Schema,
    /// A schema, or a list of them.
    SchemaOrList,
    List,
    Map,
    /// Per key a schema, or a list of keys.
    Dependencies,
    Value,
}

impl Holds {
    pub(super) fn of(keyword: &str) -> Self {
        match keyword {
            "items" => Self::SchemaOrList,
            "additionalItems"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else"
            | "additionalProperties"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => Self::Schema,
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => Self::List,
            "properties" | "patternProperties" | "dependentSchemas" => Self::Map,
            "dependencies" => Self::Dependencies,
            _ => Self::Value,
        }
    }
}

/// What may still be written.
pub(super) struct Budget {
    pub(super) nodes: usize,
    pub(super) bytes: usize,
}

impl Budget {
    fn spend(&mut self, bytes: usize) -> Result<(), Unfit> {
        self.nodes = self.nodes.checked_sub(1).ok_or(Unfit::Nodes)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Unfit::Bytes(MAX_OUTPUT))?;
        Ok(())
    }
}

/// The schema without references. `reference_depth` of them may lead into one another; those beyond, and those that lead
/// nowhere, become schemas that allow everything.
pub(super) fn inline(root: &Node, reference_depth: usize, budget: Budget) -> Result<Node, Unfit> {
    Inliner { root, reference_depth, path: Vec::new(), budget }.schema(root, 0)
}

struct Inliner<'r> {
    root: &'r Node,
    reference_depth: usize,
    /// The references that are being followed.
    path: Vec<&'r str>,
    budget: Budget,
}

impl<'r> Inliner<'r> {
    fn schema(&mut self, node: &'r Node, depth: usize) -> Result<Node, Unfit> {
        let Node::Object(map) = node else { return self.copy(node) };
        if depth > MAX_DEPTH {
            return Err(Unfit::Depth);
        }
        self.budget.spend(2)?;
        let mut rest = Map::with_capacity(map.len());
        for (keyword, value) in map {
            if keyword == "$ref"
                || (IDENTITY.contains(&keyword.as_str()) && (keyword != "id" || value.as_text().is_some()))
            {
                continue;
            }
            self.budget.spend(keyword.len() + 4)?;
            let value = match (Holds::of(keyword), value) {
                (Holds::Schema | Holds::SchemaOrList, Node::Object(_)) => self.schema(value, depth + 1)?,
                (Holds::SchemaOrList | Holds::List, Node::List(list)) => self.list(list, depth)?,
                (Holds::Map | Holds::Dependencies, Node::Object(map)) => self.map(map, depth)?,
                _ => self.copy(value)?,
            };
            rest.insert(keyword.clone(), value);
        }
        match map.get("$ref") {
            Some(Node::Text(reference)) => Ok(both(self.target(reference, depth)?, Node::Object(rest))),
            Some(_) | None => Ok(Node::Object(rest)),
        }
    }

    fn list(&mut self, list: &'r [Node], depth: usize) -> Result<Node, Unfit> {
        self.budget.spend(2)?;
        list.iter().map(|node| self.schema(node, depth + 1)).collect::<Result<_, _>>().map(Node::List)
    }

    fn map(&mut self, map: &'r Map, depth: usize) -> Result<Node, Unfit> {
        let mut schemas = Map::with_capacity(map.len());
        for (key, node) in map {
            self.budget.spend(key.len() + 4)?;
            schemas.insert(key.clone(), self.schema(node, depth + 1)?);
        }
        Ok(Node::Object(schemas))
    }

    fn target(&mut self, reference: &'r str, depth: usize) -> Result<Node, Unfit> {
        let Some(target) = reference.strip_prefix('#').and_then(|path| self.root.pointer(path)) else {
            return Ok(Node::anything());
        };
        let repeats = self.path.iter().filter(|followed| **followed == reference).count();
        if repeats >= MAX_REPEATS || self.path.len() >= self.reference_depth {
            return Ok(outline(target));
        }
        self.path.push(reference);
        let schema = self.schema(target, depth + 1);
        self.path.pop();
        schema
    }

    fn copy(&mut self, node: &Node) -> Result<Node, Unfit> {
        self.charge(node)?;
        Ok(node.clone())
    }

    fn charge(&mut self, node: &Node) -> Result<(), Unfit> {
        match node {
            Node::Null | Node::Bool(_) | Node::Number(_) => self.budget.spend(4),
            Node::Text(text) => self.budget.spend(text.len() + 2),
            Node::List(list) => {
                self.budget.spend(2)?;
                list.iter().try_for_each(|node| self.charge(node))
            }
            Node::Object(map) => {
                self.budget.spend(2)?;
                map.iter().try_for_each(|(key, node)| {
                    self.budget.spend(key.len() + 4)?;
                    self.charge(node)
                })
            }
        }
    }
}

/// What stands for a schema that is not shown: its type.
fn outline(target: &Node) -> Node {
    let kind = target.as_object().and_then(|map| map.get("type")).and_then(Node::as_text).and_then(canonical_type);
    let mut map = Map::new();
    if let Some(kind) = kind {
        map.insert("type".to_owned(), Node::text(kind));
    }
    Node::Object(map)
}
