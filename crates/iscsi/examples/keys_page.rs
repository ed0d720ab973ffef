//! Prints `docs/reference/keys.md` from the table of keys.

fn main() {
    print!("{}", wansan_iscsi::keys::page::page());
}
