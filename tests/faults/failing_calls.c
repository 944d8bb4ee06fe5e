/* Lets one call to the system fail, or kills the process at it. Only calls on files below one folder count.

   The library is preloaded by LD_PRELOAD. It reads the environment at the first call that counts:
     FAULT        "KIND NUMBER ERROR LASTING FOLDER": which call of the kind fails, counted from 1 (0: none); the
                  number of its error (0: SIGKILL after the call, -1: it writes half); 1 if all later ones fail, too
     FAULT_CALLS  a file of six numbers of 32 bits: how many calls of each kind were made
     FAULT_DISK   optional, a folder that gets a copy of all that is flushed. A file is named by its inode. The
                  entries of a folder are in a file named by the inode and ".folder", as lines "INODE d|f NAME".
   libfiu and strace cannot choose calls by folder, and libfiu cannot count them. */

#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE, FSYNC, RENAME, OPEN, UNLINK, KINDS };
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int kind = -1, number, error, lasting;
static char folder[PATH_MAX];
static unsigned *calls;
static const char *disk;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int is_told(void) {
    const char *fault;
    if (calls) return 1;
    if (!(fault = getenv("FAULT"))) return 0;
    pthread_mutex_lock(&one_at_a_time);
    if (!calls && sscanf(fault, "%d %d %d %d %4095[^\n]", &kind, &number, &error, &lasting, folder) == 5) {
        int file = REAL(open)(getenv("FAULT_CALLS"), O_RDWR);
        disk = getenv("FAULT_DISK");
        calls = mmap(NULL, KINDS * sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (calls == MAP_FAILED) abort();
        close(file);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return calls != NULL;
}

/* Returns 0 to go on, 1 to fail with errno set, 2 to kill the process afterwards, 3 to write a half. */
static int fate(int of, const char *path) {
    if (!path || !is_told() || strncmp(path, folder, strlen(folder))) return 0;
    int mine = (int)__atomic_add_fetch(&calls[of], 1, __ATOMIC_SEQ_CST);
    if (of != kind || !number || mine < number || (mine > number && !lasting)) return 0;
    if (error == -1) return 3;
    errno = error;
    return error ? 1 : 2;
}

static const char *path_of(int fd, char *buffer) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = is_told() ? readlink(link, buffer, PATH_MAX - 1) : -1;
    if (length < 0) return NULL;
    buffer[length] = 0;
    return buffer;
}

/* Copies what is durable from now on. It is not signal-safe; no signal handler calls fsync. */
static void keep(int fd, const char *path) {
    struct stat state;
    char place[PATH_MAX], part[PATH_MAX + 8], block[65536];
    if (!disk || !path || strncmp(path, folder, strlen(folder)) || fstat(fd, &state)) return;
    pthread_mutex_lock(&one_at_a_time);
    snprintf(place, sizeof place, "%s/%lu%s", disk, state.st_ino, S_ISDIR(state.st_mode) ? ".folder" : "");
    snprintf(part, sizeof part, "%s.part", place);
    int copy = REAL(open)(part, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (S_ISDIR(state.st_mode)) {
        DIR *listing = opendir(path);
        for (struct dirent *entry; (entry = readdir(listing));)
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
                dprintf(copy, "%lu %c %s\n", entry->d_ino, entry->d_type == DT_DIR ? 'd' : 'f', entry->d_name);
        closedir(listing);
    } else {
        /* Opens the file anew: fd may be open for writing only. */
        ssize_t length;
        int whole = REAL(open)(path, O_RDONLY);
        while ((length = read(whole, block, sizeof block)) > 0)
            if (REAL(write)(copy, block, length) != length) abort();
        close(whole);
    }
    close(copy);
    REAL(rename)(part, place);
    pthread_mutex_unlock(&one_at_a_time);
}

#define FAILING(of, path, call)                          \
    char its_path[PATH_MAX];                             \
    (void)its_path;                                      \
    int met = fate(of, path);                            \
    if (met == 1) return -1;                             \
    __auto_type answer = (call);                         \
    int kept_errno = errno;                              \
    if (met == 2) kill(getpid(), SIGKILL);               \
    errno = kept_errno;                                  \
    return answer;
#define MODE                                             \
    mode_t mode = 0;                                     \
    if (flags & (O_CREAT | __O_TMPFILE)) {               \
        va_list more;                                    \
        va_start(more, flags);                           \
        mode = va_arg(more, mode_t);                     \
        va_end(more);                                    \
    }

static int flushed(int fd, const char *path, int answer) {
    if (!answer) keep(fd, path);
    return answer;
}

static int keep_entry(const char *path, const struct stat *state, int type, struct FTW *where) {
    (void)state, (void)type, (void)where;
    int fd = REAL(open)(path, O_RDONLY);
    /* Another process may have renamed or deleted the file meanwhile. */
    if (fd >= 0) keep(fd, path), close(fd);
    return 0;
}

static int all_flushed(int answer) {
    if (!answer && disk) nftw(folder, keep_entry, 16, FTW_PHYS);
    return answer;
}

/* Half of the bytes, and at least one: a caller that goes on comes to the end. */
#define WRITTEN (met == 3 ? (size + 1) / 2 : size)
ssize_t write(int fd, const void *body, size_t size) {
    FAILING(WRITE, path_of(fd, its_path), REAL(write)(fd, body, WRITTEN))
}
ssize_t pwrite(int fd, const void *body, size_t size, off_t at) {
    FAILING(WRITE, path_of(fd, its_path), REAL(pwrite)(fd, body, WRITTEN, at))
}
ssize_t pwrite64(int fd, const void *body, size_t size, off64_t at) {
    FAILING(WRITE, path_of(fd, its_path), REAL(pwrite64)(fd, body, WRITTEN, at))
}
int fsync(int fd) {
    FAILING(FSYNC, path_of(fd, its_path), flushed(fd, path_of(fd, its_path), REAL(fsync)(fd)))
}
int fdatasync(int fd) {
    FAILING(FSYNC, path_of(fd, its_path), flushed(fd, path_of(fd, its_path), REAL(fdatasync)(fd)))
}
int syncfs(int fd) { FAILING(FSYNC, path_of(fd, its_path), all_flushed(REAL(syncfs)(fd))) }
int rename(const char *from, const char *to) { FAILING(RENAME, to, REAL(rename)(from, to)) }
int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    FAILING(RENAME, to, REAL(renameat)(from_fd, from, to_fd, to))
}
int open(const char *path, int flags, ...) { MODE FAILING(OPEN, path, REAL(open)(path, flags, mode)) }
int open64(const char *path, int flags, ...) { MODE FAILING(OPEN, path, REAL(open64)(path, flags, mode)) }
int openat(int fd, const char *path, int flags, ...) {
    MODE FAILING(OPEN, path, REAL(openat)(fd, path, flags, mode))
}
int openat64(int fd, const char *path, int flags, ...) {
    MODE FAILING(OPEN, path, REAL(openat64)(fd, path, flags, mode))
}
int unlink(const char *path) { FAILING(UNLINK, path, REAL(unlink)(path)) }
int unlinkat(int fd, const char *path, int flags) { FAILING(UNLINK, path, REAL(unlinkat)(fd, path, flags)) }
