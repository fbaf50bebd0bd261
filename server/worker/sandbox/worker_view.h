// The part of the machine that a worker sees from its sandbox.
#pragma once

#include <string>

#include "server/worker/sandbox/sandbox.h"

namespace gpupool::server {

struct WorkerPlaces {
  std::string device;  // "cpu:0", "cuda:1", "meta" or "rehearsal"
  std::string state_dir;
  std::string folder;  // the worker's own
  std::string blobs;
  // Folder with the kept plans that a planner reads; may be empty.
  std::string planned_folder;
  // Folders of NVIDIA's libraries, separated by colons; may be empty.
  std::string library_folders;
  bool groups = false;  // see SandboxOptions
};

// Returns what the worker may use:
//   * to read and write: its own folder, the blobs, the folders of groups if it
//     joins them, and the folder of GPUPOOL_INJECT_FAULT_FILE if that is set
//   * to read: programs' libraries, the machine's facts, the facts of the own
//     process
//   * to start: gpupool-tokenizer beside this program, but for the rehearsal
//   * for GPUs: the device files of NVIDIA, shared memory, the driver's cache
// Reads the environment, and lists /dev for GPUs.
SandboxOptions SandboxOptionsFor(const WorkerPlaces& places);

}  // namespace gpupool::server
