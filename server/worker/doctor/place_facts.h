// Facts of the places where the daemon would write and listen: the state
// folder, tried with a file that is removed again, and the ports.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupool::server {

struct StateFacts {
  std::string path;         // path as given
  std::string existing;     // path, or its first parent that exists
  std::string file_system;  // "ext4", "tmpfs", "nfs4"; "other" when unknown
  uint64_t free_bytes = 0;
  // The system's error of the step that failed; empty: none did.
  std::string folder_error;  // why it cannot be a folder: "it is a file"
  std::string write_error;
  std::string sync_error;
  bool read_only = false;  // read-only file system, also in write_error
  bool held = false;       // by a running gpupoold
};

// Reads the facts. Makes no folder.
StateFacts ReadStateFacts(const std::string& path);

// Returns the errors of the folders, separated by colons, that should have
// NVIDIA's libraries: "/a is not there".
std::vector<std::string> FolderErrors(const std::string& folders);

// Returns whether `address` is an IPv4 or IPv6 address, as the server needs.
bool IsAddress(const std::string& address);

// Returns those of `ports`, each once, on which nothing can listen at
// `address`.
std::vector<uint16_t> HeldPorts(const std::string& address,
                                const std::vector<uint16_t>& ports);

}  // namespace gpupool::server
