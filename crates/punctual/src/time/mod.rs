//! Time for programs.
#![allow(dead_code)] // the functions that are built on these come next

pub(crate) mod alarm;
pub(crate) mod timeline;
