/*
 * Prints addresses of libraries that are loaded at the start, and of libraries that are
 * opened before and after MPI_Init.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>

static int tell(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    printf("%s %#lx\n", info->dlpi_name, (unsigned long)info->dlpi_addr);
    return 0;
}

int main(int argc, char **argv)
{
    int opened = dlopen("libanl.so.1", RTLD_NOW) != NULL;
    MPI_Init(&argc, &argv);
    opened += dlopen("libBrokenLocale.so.1", RTLD_NOW) != NULL;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("%d opened, %g\n", opened, cos(argc - 1));
        dl_iterate_phdr(tell, NULL);
    }
    MPI_Finalize();
    return 0;
}
