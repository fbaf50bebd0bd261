#include "tests/server/store/faulty_vfs.h"

#include <sqlite3.h>

#include <atomic>
#include <climits>
#include <cstring>

namespace gpupool::server {

struct FaultyVfs::State {
  sqlite3_vfs vfs;
  sqlite3_vfs* real = nullptr;
  std::atomic<int> calls = 0;
  std::atomic<int> fail_from = INT_MAX;
  std::atomic<int> code = SQLITE_OK;

  int Next() {
    return calls.fetch_add(1) >= fail_from ? code.load() : SQLITE_OK;
  }
};

namespace {

// What SQLite sees of an open file; the real one lies behind it.
struct File {
  sqlite3_file base;
  FaultyVfs::State* state;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return Of(file)->real(); }

int Write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 at) {
  const int fault = Of(file)->state->Next();
  if (fault != SQLITE_OK) return fault;
  return Real(file)->pMethods->xWrite(Real(file), data, bytes, at);
}

int Sync(sqlite3_file* file, int flags) {
  const int fault = Of(file)->state->Next();
  if (fault == SQLITE_OK) {
    return Real(file)->pMethods->xSync(Real(file), flags);
  }
  return fault == SQLITE_FULL ? SQLITE_IOERR_FSYNC : fault;
}

int Close(sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); }
int Read(sqlite3_file* f, void* data, int bytes, sqlite3_int64 at) {
  return Real(f)->pMethods->xRead(Real(f), data, bytes, at);
}
int Truncate(sqlite3_file* f, sqlite3_int64 size) {
  return Real(f)->pMethods->xTruncate(Real(f), size);
}
int FileSize(sqlite3_file* f, sqlite3_int64* size) {
  return Real(f)->pMethods->xFileSize(Real(f), size);
}
int Lock(sqlite3_file* f, int level) {
  return Real(f)->pMethods->xLock(Real(f), level);
}
int Unlock(sqlite3_file* f, int level) {
  return Real(f)->pMethods->xUnlock(Real(f), level);
}
int CheckReserved(sqlite3_file* f, int* result) {
  return Real(f)->pMethods->xCheckReservedLock(Real(f), result);
}
int FileControl(sqlite3_file* f, int op, void* argument) {
  return Real(f)->pMethods->xFileControl(Real(f), op, argument);
}
int SectorSize(sqlite3_file* f) {
  return Real(f)->pMethods->xSectorSize(Real(f));
}
int Characteristics(sqlite3_file* f) {
  return Real(f)->pMethods->xDeviceCharacteristics(Real(f));
}
int ShmMap(sqlite3_file* f, int page, int size, int extend,
           void volatile** out) {
  return Real(f)->pMethods->xShmMap(Real(f), page, size, extend, out);
}
int ShmLock(sqlite3_file* f, int offset, int n, int flags) {
  return Real(f)->pMethods->xShmLock(Real(f), offset, n, flags);
}
void ShmBarrier(sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); }
int ShmUnmap(sqlite3_file* f, int remove) {
  return Real(f)->pMethods->xShmUnmap(Real(f), remove);
}

constexpr sqlite3_io_methods kMethods = {2,
                                         Close,
                                         Read,
                                         Write,
                                         Truncate,
                                         Sync,
                                         FileSize,
                                         Lock,
                                         Unlock,
                                         CheckReserved,
                                         FileControl,
                                         SectorSize,
                                         Characteristics,
                                         ShmMap,
                                         ShmLock,
                                         ShmBarrier,
                                         ShmUnmap,
                                         nullptr,
                                         nullptr};

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
         int* out_flags) {
  auto* state = static_cast<FaultyVfs::State*>(vfs->pAppData);
  file->pMethods = nullptr;
  const int result =
      state->real->xOpen(state->real, name, Real(file), flags, out_flags);
  if (result == SQLITE_OK) {
    Of(file)->state = state;
    file->pMethods = &kMethods;
  }
  return result;
}

}  // namespace

FaultyVfs::FaultyVfs() : state_(std::make_unique<State>()) {
  state_->real = sqlite3_vfs_find(nullptr);
  state_->vfs = *state_->real;
  state_->vfs.pNext = nullptr;
  state_->vfs.zName = "faulty";
  state_->vfs.pAppData = state_.get();
  state_->vfs.szOsFile =
      static_cast<int>(sizeof(File)) + state_->real->szOsFile;
  state_->vfs.xOpen = Open;
  sqlite3_vfs_register(&state_->vfs, /*makeDflt=*/1);
}

FaultyVfs::~FaultyVfs() {
  sqlite3_vfs_unregister(&state_->vfs);
  sqlite3_vfs_register(state_->real, /*makeDflt=*/1);
}

void FaultyVfs::FailFrom(int call, int code) {
  state_->calls = 0;
  state_->code = code;
  state_->fail_from = call;
}

void FaultyVfs::Heal() {
  state_->calls = 0;
  state_->fail_from = INT_MAX;
}

int FaultyVfs::calls() const { return state_->calls; }

}  // namespace gpupool::server
