//! How generated and hand-written handlers reach the real library's procedures: `real::PMPI_NAME(…)`.

use crate::model::{Flag, Table};
use crate::runtime::{ALLOW, imports};
use crate::types::{self, Side};
use std::fmt::Write;

/// What `real::PMPI_NAME` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealBinding {
    /// An external symbol: the dynamic linker finds it in the real library.
    Linked,
    /// A function that calls an address looked up by `real::resolve`: what includes it needs no libmpi to be linked.
    Resolved,
}

/// `NAME(a: T, …) -> R` of the real procedure.
fn prototype(procedure: &crate::Procedure, dots: &str) -> String {
    let parameters = types::parameter_list(procedure, Side::Real);
    let dots = if procedure.has(Flag::Varargs) { dots } else { "" };
    format!(
        "{}({parameters}{dots}) -> {}",
        procedure.real_name(),
        types::return_type(procedure, Side::Real)
    )
}

fn open(out: &mut String) {
    let _ = writeln!(out, "\n/// The real library's procedures.\n{ALLOW}pub mod real {{");
    imports(out);
}

pub(crate) fn linked(out: &mut String, table: &Table) {
    open(out);
    out.push_str("    unsafe extern \"C\" {\n");
    for procedure in &table.procedures {
        let _ = writeln!(out, "        pub fn {};", prototype(procedure, ", ..."));
    }
    out.push_str("    }\n}\n");
}

/// Before `resolve`, and for what it does not find, a call ends the process.
const RESOLVER: &str = r#"
    use core::sync::atomic::{AtomicPtr, Ordering};

    extern "C" fn missing() {
        std::process::abort();
    }

    static ADDRESSES: [AtomicPtr<c_void>; super::PROC_COUNT] =
        [const { AtomicPtr::new(missing as *const () as *mut c_void) }; super::PROC_COUNT];

    /// Looks all of them up; to be called before any other. Gives the names that `find` has answered with null.
    ///
    /// # Safety
    /// `find` must give the address of the procedure of that name, or null.
    pub unsafe fn resolve(
        mut find: impl FnMut(&'static core::ffi::CStr) -> *mut c_void,
    ) -> Vec<&'static core::ffi::CStr> {
        let mut absent = Vec::new();
        for (address, name) in ADDRESSES.iter().zip(NAMES) {
            let found = find(name);
            if found.is_null() {
                absent.push(name);
            } else {
                address.store(found, Ordering::Release);
            }
        }
        absent
    }

    macro_rules! resolved {
        ($($slot:literal $name:ident($($parameter:ident: $type:ty),*) -> $result:ty;)*) => { $(
            /// The real procedure.
            ///
            /// # Safety
            /// As the MPI standard has it.
            #[inline]
            pub unsafe fn $name($($parameter: $type),*) -> $result {
                let address = ADDRESSES[$slot].load(Ordering::Relaxed);
                // SAFETY: `resolve` has put the address of this procedure there.
                let real: unsafe extern "C" fn($($type),*) -> $result = unsafe { core::mem::transmute(address) };
                // SAFETY: handed on to the caller.
                unsafe { real($($parameter),*) }
            }
        )* };
    }
"#;

pub(crate) fn resolved(out: &mut String, table: &Table) {
    open(out);
    let _ = writeln!(out, "{RESOLVER}\n    resolved! {{");
    for (slot, procedure) in table.procedures.iter().enumerate() {
        let _ = writeln!(out, "        {slot} {};", prototype(procedure, ""));
    }
    out.push_str("    }\n\n    static NAMES: [&core::ffi::CStr; super::PROC_COUNT] = [\n");
    for procedure in &table.procedures {
        let _ = writeln!(out, "        c\"{}\",", procedure.real_name());
    }
    out.push_str("    ];\n}\n");
}
