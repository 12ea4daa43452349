/*
 * Implicit steps of a heat equation with PETSc, on a distributed grid. Options choose
 * the solver, for example "-pc_type lu -pc_factor_mat_solver_type mumps". The result,
 * written at the end in PETSc's format, has the precision of float, since some solvers
 * add in the order in which messages arrive.
 */
#include <petscdmda.h>
#include <petscksp.h>

static PetscErrorCode matrix(DM grid, Mat a, double shift)
{
    DMDALocalInfo at;
    PetscFunctionBeginUser;
    PetscCall(DMDAGetLocalInfo(grid, &at));
    for (PetscInt j = at.ys; j < at.ys + at.ym; j++)
        for (PetscInt i = at.xs; i < at.xs + at.xm; i++) {
            MatStencil row = {.i = i, .j = j}, columns[5];
            double values[5];
            int n = 0;
            int di[] = {-1, 1, 0, 0}, dj[] = {0, 0, -1, 1};
            for (int k = 0; k < 4; k++)
                if (i + di[k] >= 0 && i + di[k] < at.mx && j + dj[k] >= 0 && j + dj[k] < at.my) {
                    columns[n] = (MatStencil){.i = i + di[k], .j = j + dj[k]};
                    values[n++] = -1 - 0.1 * ((i * 7 + j * 3) % 5 == 0) * (di[k] > 0);
                }
            columns[n] = row;
            values[n++] = 4.2 + shift;
            PetscCall(MatSetValuesStencil(a, 1, &row, n, columns, values, INSERT_VALUES));
        }
    PetscCall(MatAssemblyBegin(a, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(a, MAT_FINAL_ASSEMBLY));
    PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
    DM grid;
    Mat a;
    Vec u, b;
    KSP solver;
    PetscInt steps = 20, side = 60;
    PetscFunctionBeginUser;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-steps", &steps, NULL));
    PetscCall(PetscOptionsGetInt(NULL, NULL, "-side", &side, NULL));
    PetscCall(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, side, side, PETSC_DECIDE, PETSC_DECIDE, 1, 1, NULL, NULL, &grid));
    PetscCall(DMSetFromOptions(grid));
    PetscCall(DMSetUp(grid));
    PetscCall(DMCreateMatrix(grid, &a));
    PetscCall(DMCreateGlobalVector(grid, &u));
    PetscCall(VecDuplicate(u, &b));
    PetscCall(VecSet(u, 1));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &solver));
    PetscCall(KSPSetTolerances(solver, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, 500));
    PetscCall(KSPSetFromOptions(solver));
    for (PetscInt step = 0; step < steps; step++) {
        PetscReal norm;
        PetscInt iterations;
        PetscCall(matrix(grid, a, step * 0.01));
        PetscCall(VecCopy(u, b));
        PetscCall(VecShift(b, 0.5 + step));
        PetscCall(KSPSetOperators(solver, a, a));
        PetscCall(KSPSolve(solver, b, u));
        PetscCall(VecNorm(u, NORM_2, &norm));
        PetscCall(KSPGetIterationNumber(solver, &iterations));
        PetscCall(PetscPrintf(PETSC_COMM_WORLD, "step %d: %.9g after %d iterations\n", (int)step, (double)norm, (int)iterations));
    }
    PetscViewer viewer;
    PetscScalar *values;
    PetscInt length;
    PetscCall(VecGetLocalSize(u, &length));
    PetscCall(VecGetArray(u, &values));
    for (PetscInt i = 0; i < length; i++)
        values[i] = (float)values[i];
    PetscCall(VecRestoreArray(u, &values));
    PetscCall(PetscViewerBinaryOpen(PETSC_COMM_WORLD, "u.dat", FILE_MODE_WRITE, &viewer));
    PetscCall(VecView(u, viewer));
    PetscCall(PetscViewerDestroy(&viewer));
    PetscCall(KSPDestroy(&solver));
    PetscCall(VecDestroy(&u));
    PetscCall(VecDestroy(&b));
    PetscCall(MatDestroy(&a));
    PetscCall(DMDestroy(&grid));
    PetscCall(PetscFinalize());
    return 0;
}
