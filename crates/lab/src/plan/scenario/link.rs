//! The paths of a plan: the nodes that each joins, and its effects on packets.

use wansan_mistake::{Mistake, nearest};

use super::effects::{Direction, Surroundings};
use super::names::{self, Names};
use crate::plan::document::{CaptureWish, Document, EffectsTable, PathTable, WorldKind};
use crate::world::MAX_NETWORKS;

/// One path. Nodes are given by their indices in the world.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The nodes on one side.
    pub near: Vec<usize>,
    /// The nodes on the other side.
    pub far: Vec<usize>,
    /// Whether it is a wire: without effects, not emulated.
    pub wire: bool,
    /// The real host that emulates it; `None` in other worlds.
    pub router: Option<usize>,
    /// Which of its packets are captured.
    pub capture: CaptureWish,
    /// Effects from the near side to the far side.
    pub forward: Direction,
    /// Effects from the far side to the near side.
    pub back: Direction,
}

impl Link {
    /// Whether the link joins these two nodes, in either direction.
    #[must_use]
    pub fn joins(&self, one: usize, other: usize) -> bool {
        let (near, far) = (&self.near, &self.far);
        (near.contains(&one) && far.contains(&other))
            || (near.contains(&other) && far.contains(&one))
    }

    /// All its nodes, near side first.
    pub fn members(&self) -> impl Iterator<Item = usize> {
        self.near.iter().chain(&self.far).copied()
    }
}

/// Resolves all paths, and checks that every node has one.
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
    // A real router need not be an end of a path.
    let mut routers: Vec<usize> = Vec::new();
    for (place, path) in document.path.iter().enumerate() {
        let wrong = |key: &str, what: String| {
            let mistake = Mistake::new(format!("[[path]] `{}` {what}", path.name));
            Err(mistake.in_table(text, "path", place, key))
        };
        let here = |mistake: Mistake, key: &str| mistake.in_table(text, "path", place, key);
        names::check("[[path]]", &path.name).map_err(|mistake| here(mistake, "name"))?;
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
        let router = path.router.as_deref();
        let router = router.map(|router| names.host("path.router", router));
        let router = router
            .transpose()
            .map_err(|mistake| here(mistake, "router"))?;
        routers.extend(router);
        let router = router.filter(|_| document.world.kind == WorldKind::Hosts);
        let link = one(path, names, router, directions);
        let link = link.map_err(|mistake| here(mistake, "between"))?;
        if links.iter().any(|other| other.name == link.name) {
            return wrong("name", "is given twice".to_owned());
        }
        if let CaptureWish::Elements(elements) = &link.capture
            && let Err(what) = check_elements(elements, &link.forward)
        {
            return wrong("capture", format!("capture: {what}"));
        }
        if let Some(both) = link.near.iter().find(|node| link.far.contains(node)) {
            let name = names.name(*both);
            return wrong("between", format!("joins `{name}` with itself"));
        }
        links.push(link);
    }
    let hosts = document.host.iter().map(|table| &table.name).enumerate();
    let named = document.router.iter().map(|table| &table.name).enumerate();
    let tables = hosts.map(|(place, name)| ("host", place, name));
    for (table, place, name) in tables.chain(named.map(|(place, name)| ("router", place, name))) {
        let joined = |node: &usize| {
            let mut members = links.iter().flat_map(Link::members);
            members.any(|member| member == *node) || routers.contains(node)
        };
        let nodes = names.all(table, name)?;
        if let Some(lonely) = nodes.iter().find(|node| !joined(node)) {
            let name = names.name(*lonely);
            let mistake = Mistake::new(format!("[[{table}]] `{name}`: no [[path]] leads to it"));
            return Err(mistake.in_table(text, table, place, "name"));
        }
    }
    Ok(links)
}

/// Checks that a list of elements is not empty, has no duplicates, and names only elements of the path.
fn check_elements(elements: &[String], direction: &Direction) -> Result<(), String> {
    // Resolving the direction has already built one successfully.
    let chain = direction
        .effects
        .chain::<()>(0)
        .map_err(|error| error.to_string())?;
    let known: Vec<&str> = chain.elements().map(|(name, _)| name).collect();
    if elements.is_empty() {
        return Err(format!("name elements, of {}", known.join(", ")));
    }
    for (place, element) in elements.iter().enumerate() {
        if !known.contains(&element.as_str()) {
            return Err(format!(
                "there is no element `{element}`; {}",
                nearest(element, &known)
            ));
        }
        if elements[..place].contains(element) {
            return Err(format!("`{element}` is given twice"));
        }
    }
    Ok(())
}

fn one(
    path: &PathTable,
    names: &Names,
    router: Option<usize>,
    (forward, back): (Direction, Direction),
) -> Result<Link, Mistake> {
    let [near, far] = &path.between.0;
    let near = names.all("path.between", near)?.to_vec();
    let far = names.all("path.between", far)?.to_vec();
    Ok(Link {
        name: path.name.clone(),
        wire: !path.has_effect() && near.len() == 1 && far.len() == 1 && router.is_none(),
        router,
        capture: path.capture.clone(),
        near,
        far,
        forward,
        back,
    })
}
