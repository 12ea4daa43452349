/* Operators of the program, also on derived datatypes, and predefined operators. */
#include "check.h"

typedef struct { double re, im; } number;

static MPI_Op kept_product, kept_order;
static MPI_Datatype kept_number;
static int calls;

/* On a datatype of the program: the callback gets the program's handle. */
static void product(void *in, void *inout, int *length, MPI_Datatype *type)
{
    number *a = in, *b = inout;
    calls += *type == kept_number;
    for (int i = 0; i < *length; i++) {
        number c = {a[i].re * b[i].re - a[i].im * b[i].im, a[i].re * b[i].im + a[i].im * b[i].re};
        b[i] = c;
    }
}

/* Associative, not commutative: composition of maps a*x+b. */
static void compose(void *in, void *inout, int *length, MPI_Datatype *type)
{
    unsigned *a = in, *b = inout;
    MUST(*type == MPI_UNSIGNED);
    for (int i = 0; i + 1 < *length; i += 2) {
        unsigned scale = a[i] * b[i], shift = a[i] * b[i + 1] + a[i + 1];
        b[i] = scale;
        b[i + 1] = shift;
    }
}

static void own(void)
{
    number one = {1 + rank, round_ % 5}, all = {0, 0};
    calls = 0;
    MPI_Allreduce(&one, &all, 1, kept_number, kept_product, MPI_COMM_WORLD);
    int sum, any = calls > 0;
    MPI_Allreduce(&any, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum > 0);
    say("product %g %g", all.re, all.im);
    MPI_Scan(&one, &all, 1, kept_number, kept_product, MPI_COMM_WORLD);
    say("scan %g %g", all.re, all.im);
    MPI_Reduce(&one, &all, 1, kept_number, kept_product, size - 1, MPI_COMM_WORLD);
    if (rank == size - 1)
        say("reduce %g %g", all.re, all.im);
    unsigned pair[4] = {3 + rank, 5 + round_, 7 + rank, 1}, composed[4];
    MPI_Allreduce(pair, composed, 4, MPI_UNSIGNED, kept_order, MPI_COMM_WORLD);
    say("order %u %u %u %u", composed[0], composed[1], composed[2], composed[3]);
    MPI_Request request;
    MPI_Iallreduce(pair, composed, 4, MPI_UNSIGNED, kept_order, MPI_COMM_WORLD, &request);
    meet();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("order %u %u", composed[0], composed[1]);
    MPI_Reduce_local(pair, composed, 4, MPI_UNSIGNED, kept_order);
    say("local %u %u", composed[0], composed[1]);
    number other = {2, 3};
    MPI_Reduce_local(&one, &other, 1, kept_number, kept_product);
    say("local %g %g", other.re, other.im);
}

static void temporary(void)
{
    MPI_Op op;
    MPI_Datatype type;
    number one = {2, rank}, all;
    MPI_Op_create(product, 1, &op);
    MPI_Type_contiguous(2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    int commutes;
    MPI_Op_commutative(op, &commutes);
    CHECK(commutes);
    MPI_Op_commutative(kept_order, &commutes);
    CHECK(!commutes);
    meet();
    MPI_Allreduce(&one, &all, 1, type, op, MPI_COMM_WORLD);
    say("temporary %g %g", all.re, all.im);
    CHECK(MPI_Op_f2c(MPI_Op_c2f(op)) == op && MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    CHECK(op == MPI_OP_NULL);
}

static void predefined(void)
{
    MPI_Op ops[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR};
    int in = 3 + rank * 5 + round_ % 7, out;
    for (unsigned i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        MPI_Allreduce(&in, &out, 1, MPI_INT, ops[i], MPI_COMM_WORLD);
        say("op %u: %d", i, out);
    }
    struct { float value; int index; } place = {(float)((rank * 3 + round_) % 5), rank}, best;
    MPI_Allreduce(&place, &best, 1, MPI_FLOAT_INT, MPI_MINLOC, MPI_COMM_WORLD);
    say("minloc %g %d", best.value, best.index);
    double real = 0.5 * rank, sum;
    MPI_Allreduce(&real, &sum, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    long long wide = 1LL << (20 + rank), all;
    MPI_Allreduce(&wide, &all, 1, MPI_LONG_LONG, MPI_BOR, MPI_COMM_WORLD);
    say("max %g, wide %lld", sum, all);
}

static void content(void)
{
    if (round_ == 0) {
        MPI_Op_create(product, 1, &kept_product);
        MPI_Op_create(compose, 0, &kept_order);
        MPI_Type_contiguous(2, MPI_DOUBLE, &kept_number);
        MPI_Type_commit(&kept_number);
    }
    own();
    temporary();
    predefined();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    run_rounds(argc, argv, content);
    MPI_Op_free(&kept_product);
    MPI_Op_free(&kept_order);
    MPI_Type_free(&kept_number);
    MPI_Finalize();
    return 0;
}
