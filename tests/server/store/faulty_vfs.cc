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
  std::atomic<int> fail_until = INT_MAX;
  std::atomic<int> code = SQLITE_OK;
  bool short_writes = false;
  bool keep_image = false;
  bool real_syncs = true;
  bool lie = false;
  std::string unsyncable;
  std::atomic<bool> off = false;
  DiskImage image;

  int Next() {
    const int call = calls.fetch_add(1);
    if (call < fail_from || call >= fail_until) return SQLITE_OK;
    if (keep_image) off = true;
    return code;
  }
  void Reset(int from, int until, int fault) {
    calls = 0;
    code = fault;
    fail_until = until;
    fail_from = from;
  }
};

namespace {

// The open file that SQLite sees. The real file follows it in memory.
struct File {
  sqlite3_file base;
  FaultyVfs::State* state;
  const char* name;  // null: a temporary file, which may be lost
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  DiskImage* image() {
    return state->keep_image && name != nullptr ? &state->image : nullptr;
  }
};

File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return Of(file)->real(); }

int Write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 at) {
  FaultyVfs::State* state = Of(file)->state;
  const int fault = state->Next();
  if (fault != SQLITE_OK && !state->short_writes) return fault;
  if (fault != SQLITE_OK) bytes /= 2;
  const int done = Real(file)->pMethods->xWrite(Real(file), data, bytes, at);
  if (done == SQLITE_OK && Of(file)->image() != nullptr) {
    Of(file)->image()->Write(
        Of(file)->name, static_cast<uint64_t>(at),
        {static_cast<const char*>(data), static_cast<size_t>(bytes)});
  }
  return fault != SQLITE_OK ? fault : done;
}

int Sync(sqlite3_file* file, int flags) {
  FaultyVfs::State* state = Of(file)->state;
  const int fault = state->Next();
  if (Of(file)->name != nullptr && state->unsyncable == Of(file)->name) {
    return SQLITE_IOERR_FSYNC;
  }
  if (fault != SQLITE_OK) {
    return fault == SQLITE_FULL ? SQLITE_IOERR_FSYNC : fault;
  }
  if (state->real_syncs) {
    return Real(file)->pMethods->xSync(Real(file), flags);
  }
  if (!state->lie && Of(file)->image() != nullptr) {
    Of(file)->image()->Sync(Of(file)->name);
  }
  return SQLITE_OK;
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  const int fault = Of(file)->state->Next();
  if (fault != SQLITE_OK) return SQLITE_IOERR_TRUNCATE;
  const int done = Real(file)->pMethods->xTruncate(Real(file), size);
  if (done == SQLITE_OK && Of(file)->image() != nullptr) {
    Of(file)->image()->Truncate(Of(file)->name, static_cast<uint64_t>(size));
  }
  return done;
}

int Read(sqlite3_file* f, void* data, int bytes, sqlite3_int64 at) {
  if (Of(f)->state->off) return SQLITE_IOERR_READ;
  return Real(f)->pMethods->xRead(Real(f), data, bytes, at);
}

int Close(sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); }
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
  if (state->off) return SQLITE_CANTOPEN;
  int exists = 0;
  if (name != nullptr) {
    state->real->xAccess(state->real, name, SQLITE_ACCESS_EXISTS, &exists);
  }
  const bool creates = exists == 0 && (flags & SQLITE_OPEN_CREATE) != 0;
  if (creates && state->Next() != SQLITE_OK) return SQLITE_CANTOPEN;
  const int result =
      state->real->xOpen(state->real, name, Real(file), flags, out_flags);
  if (result != SQLITE_OK) return result;
  Of(file)->state = state;
  Of(file)->name = name;  // SQLite keeps it while the file is open
  file->pMethods = &kMethods;
  if (Of(file)->image() != nullptr) Of(file)->image()->Create(name);
  return SQLITE_OK;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  auto* state = static_cast<FaultyVfs::State*>(vfs->pAppData);
  if (state->Next() != SQLITE_OK) return SQLITE_IOERR_DELETE;
  const int done = state->real->xDelete(state->real, name, sync_folder);
  if (done == SQLITE_OK && state->keep_image) {
    state->image.Remove(name, sync_folder != 0 && !state->lie);
  }
  return done;
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
  state_->vfs.xDelete = Delete;
  sqlite3_vfs_register(&state_->vfs, /*makeDflt=*/1);
}

FaultyVfs::~FaultyVfs() {
  sqlite3_vfs_unregister(&state_->vfs);
  sqlite3_vfs_register(state_->real, /*makeDflt=*/1);
}

void FaultyVfs::FailFrom(int call, int code) {
  state_->Reset(call, INT_MAX, code);
}

void FaultyVfs::FailOnce(int call, int code) {
  state_->Reset(call, call + 1, code);
}

void FaultyVfs::FailSyncsOf(const std::string& path) {
  state_->unsyncable = path;
}

void FaultyVfs::ShortWrites() { state_->short_writes = true; }

void FaultyVfs::Heal() {
  state_->Reset(INT_MAX, INT_MAX, SQLITE_OK);
  state_->keep_image = false;
  state_->off = false;
}

int FaultyVfs::calls() const { return state_->calls; }

void FaultyVfs::CutPowerAt(int call) {
  state_->keep_image = true;
  state_->real_syncs = false;
  state_->Reset(call, INT_MAX, SQLITE_IOERR_WRITE);
}

bool FaultyVfs::power_is_off() const { return state_->off; }
void FaultyVfs::LieAboutSyncs() { state_->lie = true; }
const DiskImage& FaultyVfs::image() const { return state_->image; }

}  // namespace gpupool::server
