/*
 * Parts of the CUDA driver's interface that the replacement has and the program
 * accelerator uses, as in the reference of the CUDA Driver API.
 */
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef struct { unsigned timeoutMs, reserved0; uint64_t reserved1[7]; } CUcheckpointLockArgs;
typedef struct { uint64_t reserved[8]; } CUcheckpointArgs;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, ILLEGAL_STATE = 401, NOT_READY = 600 };
enum { RUNNING, LOCKED, CHECKPOINTED, FAILED };
