//! Kinds of parameters, after the bindings of the MPI 4.1 standard (appendix A).

use crate::named_enum::named;

named! {
    /// Meaning of a parameter.
    ParamKind {
        /// Buffer that is read.
        BufIn = "BufIn",
        /// Buffer that is written.
        BufOut = "BufOut",
        /// Buffer that is read and written.
        BufInOut = "BufInOut",
        /// Address that is not dereferenced.
        Address = "Address",
        /// Location of an address that is written.
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
        /// Status object, or the constant that suppresses it.
        Status = "Status",
        /// Status objects, or the constant that suppresses them.
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
        /// Value of an attribute, or location of the value.
        AttrVal = "AttrVal",
        /// Pointer that is passed to callbacks.
        ExtraState = "ExtraState",
        /// Rank, `MPI_PROC_NULL` or (for a source) `MPI_ANY_SOURCE`.
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
        /// Type of a lock on a window: shared or exclusive.
        LockType = "LockType",
        /// Assertions of a program about an access or exposure epoch of a window, as bits.
        Assert = "Assert",
        /// Access mode with which a file is opened, as bits.
        FileMode = "FileMode",
        /// Reference position of a file offset.
        Whence = "Whence",
        /// Start of a file view, or the constant for the shared file pointer.
        Displacement = "Displacement",
        /// Result of a comparison of two communicators or groups.
        Comparison = "Comparison",
        /// Kind of a virtual topology.
        Topology = "Topology",
        /// Constructor of a datatype.
        Combiner = "Combiner",
        /// Class of datatypes of a language.
        TypeClass = "TypeClass",
        /// Criterion by which a communicator is split.
        SplitType = "SplitType",
        /// Order of an array's elements.
        Order = "Order",
        /// Distributions of an array's dimensions.
        DistributionArray = "DistributionArray",
        /// Arguments of the distributions of an array's dimensions.
        DistributionArgumentArray = "DistributionArgumentArray",
        /// Weights of edges, or the constants for no weights.
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
        /// Fortran integer that represents a handle.
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
    /// Returns true for a message buffer.
    pub const fn is_buffer(self) -> bool {
        matches!(
            self,
            ParamKind::BufIn | ParamKind::BufOut | ParamKind::BufInOut
        )
    }

    /// Returns true for an array whose length must be in the table.
    pub fn is_array(self) -> bool {
        self.name().ends_with("Array") || matches!(self, ParamKind::RankRanges | ParamKind::FStatus)
    }

    /// Returns true for a callback.
    pub fn is_callback(self) -> bool {
        self.name().ends_with("Fn") || self == ParamKind::UserFunction
    }
}
