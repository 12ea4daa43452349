/*
 * An MPI library with a device: Open MPI's library (LIBMPI), which this one needs, with a
 * mapped socket of TCP since MPI_Init. The socket stands in for the context of a network
 * device: memory of a driver, and a descriptor that executed programs inherit. A ring of
 * io_uring cannot, because Linux maps it at no address that a process chooses.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { PAGE = 4096 };

static void open_device(void)
{
    int device = socket(AF_INET, SOCK_STREAM, 0);
    if (device < 0 || mmap(0, PAGE, PROT_READ, MAP_SHARED, device, 0) == MAP_FAILED)
        abort();
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    void *library = dlopen(LIBMPI, RTLD_NOW | RTLD_NOLOAD);
    int (*init)(int *, char ***, int, int *) = dlsym(library, "PMPI_Init_thread");
    int result = init(argc, argv, required, provided);
    open_device();
    return result;
}
