! Texts, datatypes by size, and spawned programs with arguments, in each round.
! The output is equal in every run.
program details
  use mpi
  implicit none
  integer, parameter :: words = 3
  integer :: ierr, rank, size, round, rounds, parent
  character(20) :: argument

  call MPI_Init(ierr)
  call MPI_Comm_get_parent(parent, ierr)
  if (parent /= MPI_COMM_NULL) then
    call tell(parent)
    call MPI_Finalize(ierr)
    stop
  end if
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call get_command_argument(1, argument)
  read (argument, *) rounds
  call spawn()
  do round = 1, rounds
    call texts()
    call types()
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    if (rank == 0) print '(a,i4)', 'round', round
    flush (6)
  end do
  call MPI_Finalize(ierr)

contains

  subroutine spawn()
    character(12) :: given(words + 1), got
    integer :: children, codes(1), i, status(MPI_STATUS_SIZE)
    character(200) :: command
    given = [character(12) :: 'child', 'two words', 'x', ' ']
    call get_command_argument(0, command)
    call MPI_Comm_spawn(command, given, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, children, codes, ierr)
    if (rank == 0) then
      do i = 1, words
        call MPI_Recv(got, len(got), MPI_CHARACTER, 0, i, children, status, ierr)
        print '(3a)', 'argument [', got, ']'
      end do
    end if
    call MPI_Comm_disconnect(children, ierr)
  end subroutine

  subroutine tell(to)
    integer, intent(inout) :: to
    character(12) :: given
    integer :: i
    do i = 1, words
      call get_command_argument(i, given)
      call MPI_Send(given, len(given), MPI_CHARACTER, 0, i, to, ierr)
    end do
    call MPI_Comm_disconnect(to, ierr)
  end subroutine

  subroutine texts()
    integer :: info, length
    logical :: found
    character(8) :: value
    character(MPI_MAX_OBJECT_NAME) :: name
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, 'key', 'some value', ierr)
    call MPI_Info_get(info, 'key', 4, value, found, ierr)
    if (rank == 0) print '(3a,l2)', 'part [', value, ']', found
    call MPI_Info_set(info, 'tabs', achar(9)//'x'//achar(9), ierr)
    call MPI_Info_get_valuelen(info, 'tabs', length, found, ierr)
    call MPI_Comm_set_name(MPI_COMM_SELF, achar(9)//'a'//achar(10)//'  ', ierr)
    call MPI_Comm_get_name(MPI_COMM_SELF, name, length, ierr)
    if (rank == 0) print '(a,i3,l2)', 'lengths', length, found
    call MPI_Info_free(info, ierr)
  end subroutine

  subroutine types()
    integer :: class, bytes, datatype, i
    integer, parameter :: classes(3) = [MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL, MPI_TYPECLASS_COMPLEX]
    do class = 1, 3
      do i = 0, 5
        call MPI_Type_match_size(classes(class), 2**i, datatype, ierr)
        if (ierr == MPI_SUCCESS) then
          call MPI_Type_size(datatype, bytes, ierr)
          if (rank == 0) print '(a,4i4)', 'type', class, 2**i, datatype, bytes
        else if (rank == 0) then
          print '(a,3i4)', 'none', class, 2**i, ierr
        end if
      end do
    end do
  end subroutine
end program
