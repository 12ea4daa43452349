/*
 * Attributes of communicators and datatypes, with callbacks, and predefined
 * ones.
 */
#include "check.h"

static int comm_key, dup_key, type_key, copies, deletions, finalized;
static MPI_Comm kept;
static MPI_Datatype kept_type;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    int here;
    MPI_Comm_rank(comm, &here); /* MPI may be called in callbacks */
    copies++;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = key == comm_key;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    deletions++;
    MPI_Finalized(&finalized);
    say("delete of %ld (%d) %d", (long)value, *(int *)extra, key == comm_key);
    return MPI_SUCCESS;
}

static int refuse_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)value, (void)copy, (void)flag;
    return MPI_ERR_OTHER;
}

static int refuse(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

static int copy_type(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
    (void)type, (void)key, (void)extra;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)extra;
    say("delete of a type's %ld", (long)value);
    return MPI_SUCCESS;
}

static int ten = 10;

static long get(MPI_Comm comm, int key)
{
    void *value = (void *)-5;
    int flag = 0;
    MPI_Comm_get_attr(comm, key, &value, &flag);
    return flag ? (long)value : -1;
}

static void communicators(void)
{
    MPI_Comm first, second;
    copies = deletions = 0;
    MPI_Comm_set_attr(kept, comm_key, (void *)(long)(1000 + round_));
    MPI_Comm_set_attr(kept, dup_key, &ten);
    MPI_Comm_dup(kept, &first);
    meet();
    say("copied %ld, %d", get(first, comm_key), get(first, dup_key) == (long)&ten);
    MPI_Comm_set_attr(first, comm_key, (void *)77L);
    MPI_Comm_dup(first, &second);
    MPI_Comm_split(first, 0, rank, &second);
    say("split %ld", get(second, comm_key));
    MPI_Comm_delete_attr(first, comm_key);
    say("deleted %ld", get(first, comm_key));
    meet();
    MPI_Comm_free(&second);
    MPI_Comm_free(&first);
    say("%d copies, %d deletions, kept %ld", copies, deletions, get(kept, comm_key));
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL);
    MPI_Comm_set_attr(kept, key, &ten);
    MPI_Comm_set_errhandler(kept, MPI_ERRORS_RETURN);
    int rc = MPI_Comm_delete_attr(kept, key), class;
    MPI_Error_class(rc, &class);
    say("refused: %d, still %d", class, get(kept, key) == (long)&ten);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_create_keyval(refuse_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(kept, key, &ten);
    CHECK(MPI_Comm_dup(kept, &first) != MPI_SUCCESS && first == MPI_COMM_NULL);
    CHECK(MPI_Comm_delete_attr(kept, key) == MPI_SUCCESS);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
}

/*
 * A key that is freed while an attribute is attached still serves to read and
 * delete this attribute.
 */
static void freed_key(void)
{
    int freed, key, flag, again = -1;
    void *value;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &key, &ten);
    MPI_Comm_set_attr(kept, key, (void *)5L);
    freed = key;
    MPI_Comm_free_keyval(&key);
    meet();
    MPI_Comm_get_attr(kept, freed, &value, &flag);
    CHECK(flag && (long)value == 5);
    deletions = 0;
    CHECK(MPI_Comm_delete_attr(kept, freed) == MPI_SUCCESS && deletions == 1);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &again, &ten);
    MPI_Comm_free_keyval(&again);
}

static void types(void)
{
    MPI_Datatype copy;
    void *value;
    int flag;
    MPI_Type_set_attr(kept_type, type_key, (void *)(long)(500 + round_));
    MPI_Type_dup(kept_type, &copy);
    meet();
    MPI_Type_get_attr(copy, type_key, &value, &flag);
    say("type: %d %ld", flag, flag ? (long)value : -1);
    MPI_Type_free(&copy);
    MPI_Type_set_attr(MPI_INT, type_key, (void *)3L);
    meet();
    MPI_Type_get_attr(MPI_INT, type_key, &value, &flag);
    say("predefined type: %d %ld", flag, flag ? (long)value : -1);
    MPI_Type_delete_attr(MPI_INT, type_key);
}

static void predefined(void)
{
    int *value, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    say("tag_ub %d %d", flag, flag ? *value : 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
    say("wtime %d %d", flag, flag ? *value : 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag);
    say("appnum %d %d", flag, flag ? *value : 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
    CHECK(flag);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
    say("lastusedcode %d %d", flag, flag ? *value : 0);
}

static void content(void)
{
    if (round_ == 0) {
        MPI_Comm_create_keyval(copy, delete, &comm_key, &ten);
        MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, NULL);
        MPI_Type_create_keyval(copy_type, delete_type, &type_key, NULL);
        MPI_Comm_dup(MPI_COMM_WORLD, &kept);
        MPI_Type_contiguous(2, MPI_INT, &kept_type);
        /* deleted in MPI_Finalize */
        MPI_Comm_set_attr(MPI_COMM_SELF, comm_key, (void *)1L);
    }
    communicators();
    freed_key();
    types();
    predefined();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    deletions = 0;
    MPI_Type_free(&kept_type);
    MPI_Type_free_keyval(&type_key);
    MPI_Finalize();
    int before = finalized;
    MPI_Finalized(&finalized);
    if (rank == 0)
        printf("deleted at the end: %d, finalized %d then and %d now\n", deletions, before, finalized);
    return 0;
}
