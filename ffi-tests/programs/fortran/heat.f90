! Heat flow on a square whose rows are distributed: heat N STEPS. The program
! uses the module mpi.
program heat
  use mpi
  implicit none
  integer :: n, steps, rank, size, ierr, i, j, step, first, rows, up, down, total
  integer :: requests(4), statuses(MPI_STATUS_SIZE, 4)
  double precision, allocatable :: old(:,:), new(:,:)
  double precision :: change, all_change, sums(2), all_sums(2)
  character(len=32) :: word
  integer :: op, comm, row_type
  logical :: flag
  integer(kind=MPI_ADDRESS_KIND) :: tag_ub
  external :: add_up

  call MPI_Init(ierr)
  call get_command_argument(1, word); read(word, *) n
  call get_command_argument(2, word); read(word, *) steps
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  call MPI_Comm_get_attr(comm, MPI_TAG_UB, tag_ub, flag, ierr)
  if (.not. flag .or. tag_ub < 32767) call MPI_Abort(comm, 3, ierr)
  call MPI_Op_create(add_up, .true., op, ierr)
  call MPI_Type_contiguous(n, MPI_DOUBLE_PRECISION, row_type, ierr)
  call MPI_Type_commit(row_type, ierr)
  rows = n / size
  first = rank * rows
  up = rank - 1; if (up < 0) up = MPI_PROC_NULL
  down = rank + 1; if (down == size) down = MPI_PROC_NULL
  allocate(old(n, 0:rows+1), new(n, 0:rows+1))
  old = 0; new = 0
  do j = 1, rows
     do i = 1, n
        old(i, j) = sin(dble(i) * 0.1d0) + cos(dble(first + j) * 0.05d0)
     end do
  end do
  ! Persistent receives and sends.
  do step = 1, steps
     call MPI_Irecv(old(1,0), 1, row_type, up, 1, comm, requests(1), ierr)
     call MPI_Irecv(old(1,rows+1), 1, row_type, down, 2, comm, requests(2), ierr)
     call MPI_Isend(old(1,rows), 1, row_type, down, 1, comm, requests(3), ierr)
     call MPI_Isend(old(1,1), 1, row_type, up, 2, comm, requests(4), ierr)
     call MPI_Waitall(4, requests, statuses, ierr)
     change = 0
     do j = 1, rows
        do i = 2, n - 1
           new(i,j) = 0.25d0 * (old(i-1,j) + old(i+1,j) + old(i,j-1) + old(i,j+1))
           change = max(change, abs(new(i,j) - old(i,j)))
        end do
     end do
     old(2:n-1,1:rows) = new(2:n-1,1:rows)
     call MPI_Allreduce(change, all_change, 1, MPI_DOUBLE_PRECISION, MPI_MAX, comm, ierr)
     if (mod(step, 20) == 0) then
        sums = (/ sum(old(:,1:rows)), dble(rank) /)
        call MPI_Allreduce(sums, all_sums, 2, MPI_DOUBLE_PRECISION, op, comm, ierr)
        if (rank == 0) then
           write(*, '(a,i6,2es25.16)') 'step ', step, all_change, all_sums(1)
           flush(6)
        end if
     end if
  end do
  call MPI_Finalize(ierr)
end program

subroutine add_up(a, b, length, datatype)
  use mpi
  implicit none
  integer :: length, datatype, i
  double precision :: a(length), b(length)
  if (datatype /= MPI_DOUBLE_PRECISION) stop 9
  do i = 1, length
     b(i) = a(i) + b(i)
  end do
end subroutine
