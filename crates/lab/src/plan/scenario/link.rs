//! The paths of a plan: which nodes each joins, and what it does to packets.

use wansan_mistake::Mistake;

use super::effects::{Direction, Surroundings};
use super::names::Names;
use crate::plan::document::{Document, EffectsTable, PathTable};
use crate::world::MAX_NETWORKS;

/// One path. Nodes are named by their places in the world.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The nodes on its one side.
    pub near: Vec<usize>,
    /// The nodes on its other side.
    pub far: Vec<usize>,
    /// Whether it is a wire, which has no effect and is not emulated.
    pub wire: bool,
    /// Whether its packets are captured.
    pub capture: bool,
    /// What happens from the near side to the far one.
    pub forward: Direction,
    /// What happens on the way back.
    pub back: Direction,
}

impl Link {
    /// Whether the link joins these two nodes, either way.
    #[must_use]
    pub fn joins(&self, one: usize, other: usize) -> bool {
        let (near, far) = (&self.near, &self.far);
        (near.contains(&one) && far.contains(&other))
            || (near.contains(&other) && far.contains(&one))
    }

    /// All its nodes, those of its one side first.
    pub fn members(&self) -> impl Iterator<Item = usize> {
        self.near.iter().chain(&self.far).copied()
    }
}

/// Resolves all paths, and checks that every router has one.
pub(super) fn resolve(
    document: &Document,
    text: &str,
    names: &Names,
    surroundings: &Surroundings<'_>,
) -> Result<Vec<Link>, Mistake> {
    if document.path.len() > MAX_NETWORKS {
        return Err(Mistake::new(format!(
            "{} [[path]]s are more than {MAX_NETWORKS}",
            document.path.len()
        )));
    }
    let mut links: Vec<Link> = Vec::new();
    for (place, path) in document.path.iter().enumerate() {
        let wrong = |key: &str, what: String| {
            let mistake = Mistake::new(format!("[[path]] `{}` {what}", path.name));
            Err(mistake.in_table(text, "path", place, key))
        };
        let here = |mistake: Mistake, key: &str| mistake.in_table(text, "path", place, key);
        let direction = |name: &str, over: &Option<EffectsTable>| {
            let table = path.effects();
            let table = over
                .as_ref()
                .map_or(table.clone(), |over| table.overridden(over));
            surroundings.resolve(&table).map_err(|(key, what)| {
                let (place, line) = match over {
                    Some(_) => (format!("{name}.{key}"), name),
                    None => (key.to_owned(), key),
                };
                let what = format!("[[path]] `{}` {place}: {what}", path.name);
                here(Mistake::new(what), line)
            })
        };
        let directions = (
            direction("forward", &path.forward)?,
            direction("back", &path.back)?,
        );
        let link = one(path, names, directions).map_err(|mistake| here(mistake, "between"))?;
        if links.iter().any(|other| other.name == link.name) {
            return wrong("name", "is there twice".to_owned());
        }
        if link.capture && !is_file_name(&link.name) {
            let what = "has no name for a capture's file: use letters, digits, `-`, `_` and `.`";
            return wrong("name", what.to_owned());
        }
        if let Some(both) = link.near.iter().find(|node| link.far.contains(node)) {
            let name = names.name(*both);
            return wrong("between", format!("joins `{name}` with itself"));
        }
        links.push(link);
    }
    for (place, table) in document.router.iter().enumerate() {
        let joined = |node: &usize| links.iter().any(|link| link.members().any(|m| m == *node));
        let routers = names.all("router", &table.name)?;
        if let Some(lonely) = routers.iter().find(|node| !joined(node)) {
            let name = names.name(*lonely);
            let mistake = Mistake::new(format!("[[router]] `{name}`: no [[path]] leads to it"));
            return Err(mistake.in_table(text, "router", place, "name"));
        }
    }
    Ok(links)
}

/// Whether a file can be called so, and is not hidden.
fn is_file_name(name: &str) -> bool {
    let proper = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=100).contains(&name.len()) && name.chars().all(proper) && !name.starts_with('.')
}

fn one(
    path: &PathTable,
    names: &Names,
    (forward, back): (Direction, Direction),
) -> Result<Link, Mistake> {
    let [near, far] = &path.between;
    let near = names.all("path.between", near)?.to_vec();
    let far = names.all("path.between", far)?.to_vec();
    Ok(Link {
        name: path.name.clone(),
        wire: !path.has_effect() && near.len() == 1 && far.len() == 1,
        capture: path.capture,
        near,
        far,
        forward,
        back,
    })
}
