! Records of direct-access files, each read and overwritten in turn. One unit
! stays open, and another one is opened in each step: records STEPS.
program records
  use mpi
  implicit none
  integer, parameter :: count = 40
  integer :: steps, rank, step, ierr, at
  integer(kind=8) :: value(3), total, all_total
  character(len=32) :: word, name

  call MPI_Init(ierr)
  call get_command_argument(1, word); read(word, *) steps
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  write(name, '(a,i0)') 'records.', rank
  open(10, file=name, access='direct', form='unformatted', recl=24, status='replace', action='readwrite')
  open(11, file=trim(name)//'.anew', access='direct', form='unformatted', recl=24, status='replace', action='readwrite')
  do at = 1, count
     write(10, rec=at) int([at, rank, 1], 8)
     write(11, rec=at) int([at, rank, 2], 8)
  end do
  flush(10)
  close(11)
  total = 0
  do step = 1, steps
     at = mod(step * 7, count) + 1
     read(10, rec=at) value
     value = mod(value * 3 + step, 1000003_8)
     write(10, rec=at) value
     total = total + sum(value)
     open(11, file=trim(name)//'.anew', access='direct', form='unformatted', recl=24, status='old', action='readwrite')
     read(11, rec=at) value
     value = mod(value * 5 + step, 1000003_8)
     write(11, rec=at) value
     close(11)
     total = mod(total + sum(value), 1000000007_8)
     call MPI_Allreduce(total, all_total, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierr)
     if (rank == 0) then
        write(*, '(a,i0,a,i0)') 'step ', step, ' sum ', all_total
        flush(6)
     end if
  end do
  close(10)
  call MPI_Finalize(ierr)
end program records
