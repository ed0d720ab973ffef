//! Knob values, as in plans.

use std::fmt::Display;
use std::str::FromStr;

use wansan_settings::quantity::Size;

use super::Setting;

/// A change for each distinct value other than the current one.
pub(super) fn one_each<T: Display + PartialEq + Copy, const N: usize>(
    name: &str,
    values: [T; N],
    now: T,
) -> Vec<Vec<Setting>> {
    let mut tries: Vec<Vec<Setting>> = Vec::new();
    for value in values.into_iter().filter(|value| *value != now) {
        let one = vec![Setting::new(name, value)];
        if !tries.contains(&one) {
            tries.push(one);
        }
    }
    tries
}

pub(super) fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.trim().parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("`{text}` is no number from {least} to {most}"))
}

pub(super) fn size(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let bytes = Size::from_str(text)?.0;
    match (least..=most).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!(
            "{text} is not from {} to {}",
            Size(least),
            Size(most)
        )),
    }
}

pub(super) fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err(format!("`{text}` is neither `yes` nor `no`")),
    }
}
