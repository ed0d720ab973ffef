//! wansan against other implementations of iSCSI, through its binary.
fn main() {}
