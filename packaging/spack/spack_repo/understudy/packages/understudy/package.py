from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Understudy(MakefilePackage):
    """Lets unmodified MPI programs survive the sudden failure of ranks within the same
    job: a preload library keeps replicas of the ranks' memory in other ranks, and spares replace
    failed ranks."""

    license("MIT OR Apache-2.0")
    # There are no releases yet: `spack dev-build understudy@main` in a checkout.
    version("main")

    depends_on("rust@1.93:", type="build")
    # Rust needs the C compiler to link. The build needs no MPI; each program has its own MPI.
    depends_on("c", type="build")
    depends_on("gmake", type="build")

    conflicts("platform=darwin", msg="understudy runs on Linux only")
    requires("target=x86_64:", msg="understudy runs on x86-64 only")

    def build(self, spec, prefix):
        cargo = which("cargo")
        cargo("build", "--release", "--locked")

    def install(self, spec, prefix):
        make("install", "PREFIX={0}".format(prefix))

    def setup_run_environment(self, env):
        env.set("UNDERSTUDY_LIBRARY", self.prefix.lib.understudy.join("libunderstudy.so"))
