! A data representation of the program's: what is in the file is five more than what is in memory.
module conversions
  use mpi
  implicit none
contains
  subroutine read_it(userbuf, datatype, count, filebuf, position, extra, ierr)
    integer :: userbuf(*), filebuf(*), datatype, count, ierr, i
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra
    do i = 1, count
      userbuf(i + int(position)) = filebuf(i) - int(extra)
    end do
    ierr = MPI_SUCCESS
  end subroutine

  subroutine write_it(userbuf, datatype, count, filebuf, position, extra, ierr)
    integer :: userbuf(*), filebuf(*), datatype, count, ierr, i
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra
    do i = 1, count
      filebuf(i) = userbuf(i + int(position)) + int(extra)
    end do
    ierr = MPI_SUCCESS
  end subroutine

  subroutine extent_of(datatype, extent, extra, ierr)
    integer :: datatype, ierr
    integer(MPI_ADDRESS_KIND) :: extent, extra
    extent = 4
    ierr = MPI_SUCCESS
  end subroutine
end module

program represented
  use mpi
  use conversions
  implicit none
  integer :: ierr, file, rank, round, rounds, i, out(4), back(4), status(MPI_STATUS_SIZE)
  integer(MPI_ADDRESS_KIND) :: extra
  integer(MPI_OFFSET_KIND) :: zero, at
  character(20) :: argument
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_command_argument(1, argument)
  read (argument, *) rounds
  extra = 5
  zero = 0
  call MPI_Register_datarep('five more', read_it, write_it, extent_of, extra, ierr)
  if (ierr /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
  call MPI_File_open(MPI_COMM_WORLD, 'represented.data', ior(MPI_MODE_RDWR, MPI_MODE_CREATE), MPI_INFO_NULL, file, ierr)
  call MPI_File_set_view(file, zero, MPI_INTEGER, MPI_INTEGER, 'five more', MPI_INFO_NULL, ierr)
  at = 4 * rank
  do round = 1, rounds
    out = [(1000 * round + 10 * rank + i, i = 1, 4)]
    call MPI_File_write_at_all(file, at, out, 4, MPI_INTEGER, status, ierr)
    call MPI_File_read_at_all(file, at, back, 4, MPI_INTEGER, status, ierr)
    if (any(back /= out)) call MPI_Abort(MPI_COMM_WORLD, 4, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    if (rank == 0) print '(a,i4)', 'round', round
    flush (6)
  end do
  call MPI_File_close(file, ierr)
  call MPI_Finalize(ierr)
end program
