//! The kernel's TCP: watch it and steer it
