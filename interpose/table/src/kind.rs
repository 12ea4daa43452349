//! The kinds of parameters, after the bindings of the MPI 4.1 standard (appendix A).

use crate::named::named;

named! {
    /// What a parameter means.
    ParamKind {
        /// Buffer that is read.
        BufIn = "BufIn",
        /// Buffer that is written.
        BufOut = "BufOut",
        /// Buffer that is read and written.
        BufInOut = "BufInOut",
        /// An address that is not followed.
        Address = "Address",
        /// Where an address is stored.
        AddressOut = "AddressOut",
        Count = "Count",
        CountArray = "CountArray",
        /// Number of elements as `MPI_Count`.
        BigCount = "BigCount",
        Displ = "Displ",
        DisplArray = "DisplArray",
        Datatype = "Datatype",
        DatatypeArray = "DatatypeArray",
        Comm = "Comm",
        Group = "Group",
        Op = "Op",
        Request = "Request",
        RequestArray = "RequestArray",
        /// Status object, or the constant that says it is not wanted.
        Status = "Status",
        /// Status objects, or the constant that says they are not wanted.
        StatusArray = "StatusArray",
        Errhandler = "Errhandler",
        Info = "Info",
        InfoArray = "InfoArray",
        /// Handle of a matched message.
        Message = "Message",
        Win = "Win",
        File = "File",
        Session = "Session",
        /// Key of an attribute.
        Keyval = "Keyval",
        /// Attribute value, or where it is stored.
        AttrVal = "AttrVal",
        /// Pointer handed on to callbacks.
        ExtraState = "ExtraState",
        /// Rank, `MPI_PROC_NULL` and (for a source) `MPI_ANY_SOURCE`.
        Rank = "Rank",
        RankArray = "RankArray",
        /// Triples first, last, stride of ranks.
        RankRanges = "RankRanges",
        Tag = "Tag",
        /// Root rank of a collective.
        Root = "Root",
        Flag = "Flag",
        Int = "Int",
        IntArray = "IntArray",
        /// Error code or class.
        ErrorCode = "ErrorCode",
        /// Level of thread support.
        ThreadLevel = "ThreadLevel",
        /// Whether a lock of a window is shared or exclusive.
        LockType = "LockType",
        /// What a program asserts of an epoch of a window, as bits.
        Assert = "Assert",
        /// How a file is opened, as bits.
        FileMode = "FileMode",
        /// Where an offset in a file counts from.
        Whence = "Whence",
        /// Where a view begins, or the constant that says where the shared pointer is.
        Displacement = "Displacement",
        /// How alike two communicators or groups are.
        Comparison = "Comparison",
        /// Kind of a virtual topology.
        Topology = "Topology",
        /// How a datatype was made.
        Combiner = "Combiner",
        /// Class of datatypes of a language.
        TypeClass = "TypeClass",
        /// By what a communicator is split.
        SplitType = "SplitType",
        /// Order of an array's elements.
        Order = "Order",
        /// How dimensions are distributed.
        DistributionArray = "DistributionArray",
        /// Arguments of these distributions.
        DistributionArgumentArray = "DistributionArgumentArray",
        /// Weights of edges, or the constants that say there are none.
        WeightArray = "WeightArray",
        /// Address-sized integer.
        Aint = "Aint",
        /// Address-sized integers.
        AintArray = "AintArray",
        /// File offset.
        Offset = "Offset",
        /// Text that is read.
        String = "String",
        /// Text that is written.
        StringOut = "StringOut",
        /// Texts that are read.
        StringArray = "StringArray",
        /// Argument count of the program.
        Argc = "Argc",
        /// Arguments of the program.
        Argv = "Argv",
        /// Fortran integer that stands for a handle.
        Fint = "Fint",
        /// Fortran status, an array of integers.
        FStatus = "FStatus",
        /// Status of the `mpi_f08` module.
        F08Status = "F08Status",
        UserFunction = "UserFunction",
        /// Copy callback of a communicator's attribute.
        CommCopyFn = "CommCopyFn",
        /// Delete callback of a communicator's attribute.
        CommDeleteFn = "CommDeleteFn",
        /// Copy callback of a datatype's attribute.
        TypeCopyFn = "TypeCopyFn",
        /// Delete callback of a datatype's attribute.
        TypeDeleteFn = "TypeDeleteFn",
        /// Copy callback of a window's attribute.
        WinCopyFn = "WinCopyFn",
        /// Delete callback of a window's attribute.
        WinDeleteFn = "WinDeleteFn",
        /// Error callback of a communicator.
        CommErrhandlerFn = "CommErrhandlerFn",
        /// Error callback of a window.
        WinErrhandlerFn = "WinErrhandlerFn",
        /// Error callback of a file.
        FileErrhandlerFn = "FileErrhandlerFn",
        /// Error callback of a session.
        SessionErrhandlerFn = "SessionErrhandlerFn",
        /// Query callback of a generalized request.
        GrequestQueryFn = "GrequestQueryFn",
        /// Free callback of a generalized request.
        GrequestFreeFn = "GrequestFreeFn",
        /// Cancel callback of a generalized request.
        GrequestCancelFn = "GrequestCancelFn",
        /// Conversion callback of a data representation.
        DatarepConversionFn = "DatarepConversionFn",
        /// Extent callback of a data representation.
        DatarepExtentFn = "DatarepExtentFn",
        /// Enumeration of the tool interface.
        ToolEnum = "ToolEnum",
        ToolCvar = "ToolCvar",
        ToolPvar = "ToolPvar",
        ToolSession = "ToolSession",
        /// Pointer whose meaning depends on another parameter.
        Opaque = "Opaque",
    }
}

impl ParamKind {
    /// Whether it is a buffer for messages.
    pub const fn is_buffer(self) -> bool {
        matches!(
            self,
            ParamKind::BufIn | ParamKind::BufOut | ParamKind::BufInOut
        )
    }

    /// Whether it is an array whose length the table must tell.
    pub fn is_array(self) -> bool {
        self.name().ends_with("Array") || matches!(self, ParamKind::RankRanges | ParamKind::FStatus)
    }

    /// Whether it is a callback.
    pub fn is_callback(self) -> bool {
        self.name().ends_with("Fn") || self == ParamKind::UserFunction
    }
}
