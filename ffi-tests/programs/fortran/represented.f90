! Registers a data representation, and prints the library's result in every
! round.
module conversions
  use mpi
  implicit none
contains
  subroutine convert(userbuf, datatype, count, filebuf, position, extra, ierr)
    integer :: userbuf(*), filebuf(*), datatype, count, ierr
    integer(MPI_OFFSET_KIND) :: position
    integer(MPI_ADDRESS_KIND) :: extra
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
  integer :: ierr, rank, round, rounds, code, class(2)
  integer(MPI_ADDRESS_KIND) :: extra
  character(20) :: argument
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_command_argument(1, argument)
  read (argument, *) rounds
  extra = 5
  do round = 1, rounds
    call MPI_Register_datarep('converted', convert, convert, extent_of, extra, code)
    call MPI_Error_class(code, class(1), ierr)
    call MPI_Register_datarep('plain', MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, extra, code)
    call MPI_Error_class(code, class(2), ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    if (rank == 0) print '(a,3i4)', 'round', round, class
    flush (6)
  end do
  call MPI_Finalize(ierr)
end program
