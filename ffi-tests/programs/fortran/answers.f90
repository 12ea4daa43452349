! MPI's results in Fortran 2008, round after round: answers ROUNDS. Results are
! compared with the standard.
module checks
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, size, failures = 0, copies = 0, deletions = 0, errors = 0
  integer :: completed = 0
  interface
     integer(c_int) function c_get_attr(comm, keyval, value, flag) bind(C, name='MPI_Comm_get_attr')
       import
       integer(c_intptr_t), value :: comm
       integer(c_int), value :: keyval
       type(c_ptr) :: value
       integer(c_int) :: flag
     end function
     integer(c_int) function c_set_attr(comm, keyval, value) bind(C, name='MPI_Comm_set_attr')
       import
       integer(c_intptr_t), value :: comm
       integer(c_int), value :: keyval
       integer(c_intptr_t), value :: value
     end function
     type(c_funptr) function dlsym(library, name) bind(C)
       import
       type(c_ptr), value :: library
       character(c_char), intent(in) :: name(*)
     end function
  end interface
  abstract interface
     integer(c_intptr_t) function conversion(number) bind(C)
       import
       integer(c_int), value :: number
     end function
  end interface
contains
  subroutine check(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what
    if (good) return
    failures = failures + 1
    print '(a,i0,a,a)', 'rank ', rank, ': wrong: ', what
  end subroutine

  subroutine longest(a, b, length, datatype)
    type(c_ptr), value :: a, b
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: x(:), y(:)
    call check(datatype == MPI_INTEGER, 'the datatype of an operator')
    call c_f_pointer(a, x, [length])
    call c_f_pointer(b, y, [length])
    y = max(x, y)
  end subroutine

  subroutine on_copy(comm, keyval, extra, value, copy, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra, value, copy
    logical :: flag
    call check(extra == 77, 'the extra state of a copy')
    copies = copies + 1
    copy = value + 1
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine on_delete(comm, keyval, value, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra, value
    call check(extra == 77, 'the extra state of a deletion')
    deletions = deletions + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine on_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code, class
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_RANK, 'the class of an error')
    errors = errors + 1
  end subroutine

  subroutine query(extra, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra))
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = 5
    status%MPI_TAG = 6
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    call check(extra == 11, 'the extra state of a general request')
    extra = extra + 1
    completed = completed + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine

  subroutine messages(comm)
    type(MPI_Comm), intent(in) :: comm
    integer, asynchronous :: got(8), sent(8)
    integer :: i, index, count, indices(8), left, right
    type(MPI_Request) :: requests(8)
    type(MPI_Status) :: status, statuses(8)
    logical :: flag, seen(8)
    left = mod(rank + size - 1, size)
    right = mod(rank + 1, size)
    sent = [(rank * 100 + i, i = 1, 8)]
    do i = 1, 8
       call MPI_Irecv(got(i), 1, MPI_INTEGER, left, i, comm, requests(i))
    end do
    do i = 8, 1, -1
       call MPI_Send(sent(i), 1, MPI_INTEGER, right, i, comm)
    end do
    call MPI_Wait(requests(1), status)
    call check(status%MPI_SOURCE == left .and. status%MPI_TAG == 1, 'the status of a wait')
    call MPI_Get_count(status, MPI_INTEGER, count)
    call check(count == 1, 'a count')
    call check(requests(1) == MPI_REQUEST_NULL, 'a request that has ended')
    call MPI_Waitany(8, requests, index, status)
    call check(index >= 2 .and. index <= 8 .and. status%MPI_TAG == index, 'the index of a wait')
    seen = .false.
    seen([1, index]) = .true.
    call MPI_Waitsome(8, requests, count, indices, statuses)
    call check(count >= 1, 'a wait for some')
    do i = 1, count
       call check(statuses(i)%MPI_TAG == indices(i), 'the statuses of some')
       seen(indices(i)) = .true.
    end do
    flag = .false.
    do while (.not. flag)
       call MPI_Testany(8, requests, index, flag, status)
    end do
    if (index /= MPI_UNDEFINED) seen(index) = .true.
    count = 0
    do while (count /= MPI_UNDEFINED .and. .not. all(seen))
       call MPI_Testsome(8, requests, count, indices, MPI_STATUSES_IGNORE)
       if (count /= MPI_UNDEFINED) seen(indices(1:count)) = .true.
    end do
    call MPI_Testall(8, requests, flag, statuses)
    call check(flag, 'a test of all')
    call check(all(got == [(left * 100 + i, i = 1, 8)]), 'messages')
    ! Persistent requests, with and without statuses.
    call MPI_Recv_init(got, 8, MPI_INTEGER, left, 9, comm, requests(1))
    call MPI_Send_init(sent, 8, MPI_INTEGER, right, 9, comm, requests(2))
    do i = 1, 3
       sent = sent + 1
       call MPI_Startall(2, requests)
       call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
       call check(requests(1) /= MPI_REQUEST_NULL, 'a persistent request')
       call check(got(3) == left * 100 + 3 + i, 'persistent messages')
       call MPI_Start(requests(1))
       call MPI_Start(requests(2))
       call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
       flag = .false.
       do while (.not. flag)
          call MPI_Test(requests(1), flag, status)
       end do
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    call check(requests(2) == MPI_REQUEST_NULL, 'a request that is freed')
  end subroutine

  subroutine collectives(comm)
    type(MPI_Comm), intent(in) :: comm
    integer, asynchronous :: counts(size), places(size), values(size), got(size), sum, i
    type(MPI_Datatype) :: types(size)
    type(MPI_Request) :: request
    type(MPI_Op) :: op
    logical :: commutes
    call MPI_Op_create(longest, .true., op)
    call MPI_Op_commutative(op, commutes)
    call check(commutes, 'an operator that commutes')
    values = [(rank * size + i, i = 1, size)]
    call MPI_Allreduce(MPI_IN_PLACE, values, size, MPI_INTEGER, op, comm)
    call check(all(values == [((size - 1) * size + i, i = 1, size)]), 'a reduction in place')
    call MPI_Op_free(op)
    values = [(rank * size + i, i = 1, size)]
    counts = 1
    places = [(i - 1, i = 1, size)]
    call MPI_Ialltoallv(values, counts, places, MPI_INTEGER, got, counts, places, MPI_INTEGER, comm, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(got == [((i - 1) * size + rank + 1, i = 1, size)]), 'a non-blocking alltoallv')
    got = 0
    types = MPI_INTEGER
    places = places * 4
    call MPI_Alltoallw(values, counts, places, types, got, counts, places, types, comm)
    call check(all(got == [((i - 1) * size + rank + 1, i = 1, size)]), 'an alltoallw')
    got = 0
    call MPI_Ialltoallw(values, counts, places, types, got, counts, places, types, comm, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(got == [((i - 1) * size + rank + 1, i = 1, size)]), 'a non-blocking alltoallw')
    call MPI_Ireduce_scatter(values, sum, counts, MPI_INTEGER, MPI_SUM, comm, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(sum == size * (rank + 1) + size * (size * (size - 1) / 2), 'a reduction that is scattered')
    call MPI_Ibarrier(comm, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Ibcast(values, size, MPI_INTEGER, 0, comm, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(values(1) == 1, 'a non-blocking broadcast')
  end subroutine

  ! A handle in C. In MPICH, handles are numbers that need no conversion function.
  integer(c_intptr_t) function in_c(comm)
    type(MPI_Comm), intent(in) :: comm
    type(c_funptr) :: function
    procedure(conversion), pointer :: f2c
    in_c = comm%MPI_VAL
    if (MPI_COMM_WORLD%MPI_VAL > 1000) return
    function = dlsym(c_null_ptr, 'MPI_Comm_f2c' // c_null_char)
    call c_f_procpointer(function, f2c)
    in_c = f2c(comm%MPI_VAL)
  end function

  ! An attribute set in Fortran is the address of an integer in C. An attribute
  ! set in C is an integer in Fortran (MPI 4.1, 19.3.7).
  subroutine attributes(comm)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Comm) :: other
    integer :: keyval
    integer(c_int) :: is_set, rc
    type(c_ptr) :: place
    integer(c_intptr_t), pointer :: seen
    integer(MPI_ADDRESS_KIND) :: value
    logical :: flag
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(comm, keyval, 5555555555_MPI_ADDRESS_KIND + rank)
    call MPI_Comm_dup(comm, other)
    rc = c_get_attr(in_c(other), keyval, place, is_set)
    call check(rc == 0 .and. is_set /= 0, 'an attribute in C')
    call c_f_pointer(place, seen)
    call check(seen == 5555555555_c_intptr_t + rank, 'the value of an attribute in C')
    rc = c_set_attr(in_c(other), keyval, 7777777777_c_intptr_t)
    call MPI_Comm_get_attr(other, keyval, value, flag)
    call check(flag .and. value == 7777777777_MPI_ADDRESS_KIND, 'an attribute of C')
    call MPI_Comm_get_attr(comm, keyval, value, flag)
    call check(flag .and. value == 5555555555_MPI_ADDRESS_KIND + rank, 'an attribute that C has seen')
    call MPI_Comm_free(other)
    call MPI_Comm_delete_attr(comm, keyval)
    call MPI_Comm_free_keyval(keyval)
  end subroutine

  subroutine groups(comm)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Comm) :: other
    type(MPI_Group) :: group, first, rest, both, none, range
    integer :: length, result
    call MPI_Comm_group(comm, group)
    call MPI_Group_incl(group, 1, [0], first)
    call MPI_Group_excl(group, 1, [0], rest)
    call MPI_Group_union(rest, first, both)
    call MPI_Group_size(both, length)
    call check(length == size, 'a union')
    call MPI_Group_intersection(first, rest, none)
    call check(none == MPI_GROUP_EMPTY, 'an intersection')
    call MPI_Group_difference(group, first, both)
    call MPI_Group_compare(both, rest, result)
    call check(result == MPI_IDENT, 'a difference')
    call MPI_Group_range_incl(group, 1, reshape([0, size - 1, 2], [3, 1]), range)
    call MPI_Group_size(range, length)
    call check(length == (size + 1) / 2, 'a range')
    call MPI_Group_range_excl(group, 1, reshape([0, size - 1, 2], [3, 1]), rest)
    call MPI_Group_size(rest, length)
    call check(length == size / 2, 'all but a range')
    call MPI_Comm_create(comm, range, other)
    if (mod(rank, 2) == 0) then
       call MPI_Comm_size(other, length)
       call check(length == (size + 1) / 2, 'a communicator of a group')
       call MPI_Comm_free(other)
    end if
    call MPI_Group_free(group)
    call MPI_Group_free(range)
  end subroutine

  subroutine objects(comm)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Comm) :: other, grid
    type(MPI_Errhandler) :: handler
    type(MPI_Request) :: request
    type(MPI_Info) :: info
    type(MPI_Datatype) :: type
    type(MPI_Status) :: status
    type(MPI_Group) :: group
    integer :: keyval, length, dims(2), place(2), before, code
    integer(MPI_ADDRESS_KIND) :: value
    integer(MPI_ADDRESS_KIND), volatile :: extra
    logical :: flag, periods(2)
    character(MPI_MAX_OBJECT_NAME) :: name
    character(20) :: text
    before = copies
    call MPI_Comm_create_keyval(on_copy, on_delete, keyval, 77_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(comm, keyval, 123456789012_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(comm, other)
    call MPI_Comm_get_attr(other, keyval, value, flag)
    call check(flag .and. value == 123456789013_MPI_ADDRESS_KIND, 'an attribute that is copied')
    call check(copies == before + 1, 'copies of attributes')
    before = deletions
    call MPI_Comm_set_name(other, 'a copy')
    call MPI_Comm_get_name(other, name, length)
    call check(name == 'a copy' .and. length == 6, 'a name')
    call MPI_Comm_create_errhandler(on_error, handler)
    call MPI_Comm_set_errhandler(other, handler)
    before = errors
    call MPI_Send(before, 1, MPI_INTEGER, size + 3, 1, other, code)
    call check(errors == before + 1 .and. code /= MPI_SUCCESS, 'an error handler')
    call MPI_Errhandler_free(handler)
    before = deletions
    call MPI_Comm_free(other)
    call MPI_Comm_delete_attr(comm, keyval)
    call check(deletions == before + 2, 'deletions of attributes')
    call MPI_Comm_free_keyval(keyval)
    before = completed
    extra = 11
    call MPI_Grequest_start(query, release, cancel, extra, request)
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_elements(status, MPI_INTEGER, length)
    call check(length == 11 .and. status%MPI_SOURCE == 5 .and. status%MPI_TAG == 6, 'a general request')
    call check(completed == before + 1, 'the end of a general request')
    call check(extra == 12, 'the variable of a general request')
    call MPI_Info_create(info)
    call MPI_Info_set(info, 'colour', 'dark green')
    text = 'x'
    call MPI_Info_get(info, ' colour  ', 20, text, flag)
    call check(flag .and. text == 'dark green', 'a value')
    call MPI_Info_get(info, 'size', 20, text, flag)
    call check(.not. flag, 'a value that is not there')
    call MPI_Info_free(info)
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, type)
    call MPI_Type_size(type, length)
    call check(type == MPI_REAL8 .and. length == 8, 'a type by its size')
    dims = 0
    call MPI_Dims_create(size, 2, dims)
    call graphs(comm)
    call MPI_Cart_create(comm, 2, dims, [.true., .false.], .false., grid)
    periods = [.false., .true.]
    call MPI_Cart_get(grid, 2, dims, periods, place)
    call check(periods(1) .and. .not. periods(2), 'the periods of a grid')
    call neighbours(grid)
    call MPI_Comm_free(grid)
    call MPI_Comm_group(comm, group)
    call MPI_Group_size(group, length)
    call check(length == size, 'a group')
    call MPI_Group_free(group)
  end subroutine

  subroutine graphs(comm)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Comm) :: graph
    integer :: other(1), weight(1), size, rank, sources, targets
    logical :: weighted
    call MPI_Comm_size(comm, size)
    call MPI_Comm_rank(comm, rank)
    other = mod(rank + 1, size)
    weight = 4
    call MPI_Dist_graph_create_adjacent(comm, 1, [mod(rank + size - 1, size)], weight, 1, other, weight, &
         MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, sources, targets, weighted)
    call check(sources == 1 .and. targets == 1 .and. weighted, 'a graph with weights')
    call MPI_Comm_free(graph)
    call MPI_Dist_graph_create(comm, 1, [rank], [1], other, MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, sources, targets, weighted)
    call check(sources == 1 .and. targets == 1 .and. .not. weighted, 'a graph without weights')
    call MPI_Comm_free(graph)
  end subroutine

  subroutine neighbours(grid)
    type(MPI_Comm), intent(in) :: grid
    integer, asynchronous :: values(4), got(4)
    integer :: i, sources(4), near, before, behind
    type(MPI_Request) :: request
    values = [(rank * 10 + i, i = 1, 4)]
    got = -1
    call MPI_Ineighbor_alltoall(values, 1, MPI_INTEGER, got, 1, MPI_INTEGER, grid, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    do i = 0, 1
       call MPI_Cart_shift(grid, i, 1, before, behind)
       sources(2 * i + 1: 2 * i + 2) = [before, behind]
    end do
    do i = 1, 4
       near = merge(i + 1, i - 1, mod(i, 2) == 1)
       if (sources(i) == MPI_PROC_NULL) then
          call check(got(i) == -1, 'what no neighbour sends')
       else if (sources(near) /= sources(i)) then
          call check(got(i) == sources(i) * 10 + near, 'what a neighbour sends')
       end if
    end do
  end subroutine
end module

program answers
  use checks
  implicit none
  integer :: round, rounds, all_failures
  character(16) :: word
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call get_command_argument(1, word)
  read (word, *) rounds
  do round = 1, rounds
     call messages(MPI_COMM_WORLD)
     call collectives(MPI_COMM_WORLD)
     call objects(MPI_COMM_WORLD)
     call attributes(MPI_COMM_WORLD)
     call groups(MPI_COMM_WORLD)
     call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
     if (rank == 0) then
        print '(a,i0,a,i0,a,i0,a,i0)', 'round ', round, ': ', all_failures, ' wrong, copies ', copies, ', errors ', errors
        flush (6)
     end if
  end do
  call MPI_Finalize()
end program
