#include "server/worker/sandbox/worker_view.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpupool::server {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

WorkerPlaces Places(const std::string& device) {
  WorkerPlaces places;
  places.device = device;
  places.state_dir = "/state";
  places.folder = "/state/workers/" + device;
  places.blobs = "/state/blobs";
  return places;
}

TEST(WorkerViewTest, AWorkerWritesItsFolderAndTheBlobs) {
  ::unsetenv("GPUPOOL_INJECT_FAULT_FILE");
  const SandboxOptions options = SandboxOptionsFor(Places("meta"));
  EXPECT_FALSE(options.gpu);
  EXPECT_FALSE(options.groups);
  EXPECT_THAT(options.writable, ::testing::UnorderedElementsAre(
                                    "/state/workers/meta", "/state/blobs"));
  EXPECT_THAT(options.readable, IsSupersetOf({"/usr", "/proc/self", "/sys"}));
  for (const char* folder : {"/", "/etc", "/proc", "/state", "/home", "/dev"}) {
    EXPECT_THAT(options.readable, Not(Contains(folder)));
  }
}

TEST(WorkerViewTest, OnlyWorkersOfGroupsSeeTheFoldersOfGroups) {
  WorkerPlaces places = Places("cpu:0");
  EXPECT_THAT(SandboxOptionsFor(places).writable,
              Not(Contains("/state/groups")));
  places.groups = true;
  EXPECT_THAT(SandboxOptionsFor(places).writable, Contains("/state/groups"));
}

TEST(WorkerViewTest, APlannerReadsTheKeptPlans) {
  WorkerPlaces places = Places("meta");
  places.planned_folder = "/state/workers/cuda-0";
  const SandboxOptions options = SandboxOptionsFor(places);
  EXPECT_THAT(options.readable, Contains("/state/workers/cuda-0"));
  EXPECT_THAT(options.writable, Not(Contains("/state/workers/cuda-0")));
}

TEST(WorkerViewTest, LibrariesAreReadWhereTheOperatorKeepsThem) {
  WorkerPlaces places = Places("cuda:0");
  places.library_folders = "/a::/b";
  const SandboxOptions options = SandboxOptionsFor(places);
  EXPECT_TRUE(options.gpu);
  EXPECT_THAT(options.readable, IsSupersetOf({"/a", "/b", "/proc/driver"}));
  EXPECT_THAT(options.writable, Contains("/dev/shm"));
  EXPECT_THAT(SandboxOptionsFor(Places("cpu:0")).writable,
              Not(Contains("/dev/shm")));
}

TEST(WorkerViewTest, TheModuleForGpusIsFoundBesideTheProgram) {
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const SandboxOptions options = SandboxOptionsFor(Places("cuda:0"));
  EXPECT_THAT(
      options.readable,
      IsSupersetOf({folder.string(), (folder.parent_path() / "lib").string()}));
}

TEST(WorkerViewTest, WorkersThatReadDataSetsStartTheTokenizer) {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() /
      "gpupool-tokenizer";
  for (const char* device : {"meta", "cpu:0", "cuda:0"}) {
    EXPECT_THAT(SandboxOptionsFor(Places(device)).programs,
                ::testing::ElementsAre(program))
        << device;
  }
  EXPECT_THAT(SandboxOptionsFor(Places("rehearsal")).programs,
              ::testing::IsEmpty());
}

TEST(WorkerViewTest, FaultsAreInjectedFromTheirFolder) {
  ::setenv("GPUPOOL_INJECT_FAULT_FILE", "/faults/file", 1);
  EXPECT_THAT(SandboxOptionsFor(Places("cpu:0")).writable, Contains("/faults"));
  ::unsetenv("GPUPOOL_INJECT_FAULT_FILE");
}

}  // namespace
}  // namespace gpupool::server
