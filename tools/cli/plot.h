/* Bytes over time as a picture: runs gnuplot, which must be on PATH, and writes an SVG or a PNG by
 * the ending of the file's name. The picture appears whole under its name or not at all; a file
 * that was there before stays as it was until then. Thread rule: any thread, one file each. */
#ifndef MEMBRANE_TOOLS_CLI_PLOT_H
#define MEMBRANE_TOOLS_CLI_PLOT_H

#include <stddef.h>
#include <stdint.h>

#define MBR_PLOT_MAX_SERIES_COUNT UINT32_C(16)
#define MBR_PLOT_MAX_POINTS_COUNT (UINT64_C(1) << 20) /* of all series together */
#define MBR_PLOT_MAX_PATH_BYTES 4096
#define MBR_PLOT_ERROR_BYTES 512

typedef enum mbr_plot_status {
    MBR_PLOT_OK = 0,
    MBR_PLOT_UNKNOWN_ENDING, /* neither .svg nor .png */
    MBR_PLOT_NO_DATA,        /* no series, or none with a point */
    MBR_PLOT_OVER_LIMIT,
    MBR_PLOT_NO_GNUPLOT,     /* not on PATH */
    MBR_PLOT_CANNOT_WRITE,   /* the picture's folder or the disk refuses */
    MBR_PLOT_GNUPLOT_FAILED, /* it ran and did not give a whole picture */
    MBR_PLOT_SYSTEM,         /* the operating system refused something else */
} mbr_plot_status;

typedef struct mbr_plot_point {
    uint64_t time_ns;
    uint64_t bytes;
} mbr_plot_point;

typedef struct mbr_plot_series {
    const char *title; /* for the key; shown as it is */
    const mbr_plot_point *points;
    uint64_t point_count; /* each value holds until the next point; 0 leaves the series out */
} mbr_plot_series;

typedef struct mbr_plot {
    const char *path; /* ends in .svg or .png */
    const char *title;
    const mbr_plot_series *series;
    uint32_t series_count;
} mbr_plot;

typedef struct mbr_plot_error {
    mbr_plot_status status;
    char text[MBR_PLOT_ERROR_BYTES]; /* one line: the file, what is wrong, what would work */
} mbr_plot_error;

/* The operating system's part. Every call answers a negative errno on failure. */
typedef struct mbr_plot_os {
    int (*memory_file)(void *context); /* without a name; gone when closed */
    /* 1: nothing stands there, or a file of bytes; 0: something that a picture may not replace. */
    int (*is_replaceable)(void *context, const char *path);
    int (*create)(void *context, const char *path); /* for writing; -EEXIST when it is there */
    int64_t (*write)(void *context, int file, const void *from, size_t bytes);
    int64_t (*size)(void *context, int file);
    int64_t (*read)(void *context, int file, void *to, size_t bytes, uint64_t offset);
    int (*rewind)(void *context, int file);
    /* Runs a program found on PATH to its end; -ENOENT when it is not found. *out_status is what
     * waitpid says. */
    int (*run)(void *context, const char *const *arguments, int input, int output, int errors,
        int *out_status);
    int (*rename)(void *context, const char *from, const char *to);
    int (*remove)(void *context, const char *path);
    void (*close)(void *context, int file);
    void *context;
} mbr_plot_os;

extern const mbr_plot_os mbr_plot_os_default;

/* Whether a picture could get this name, before anything is done for it: its ending, what stands
 * there, its folder. Leaves nothing. os and error as below; the answers of mbr_plot_write. */
mbr_plot_status mbr_plot_probe(const char *path, const mbr_plot_os *os, mbr_plot_error *error);

/* os NULL is the system's; error NULL is allowed and else always written. */
mbr_plot_status mbr_plot_write(const mbr_plot *plot, const mbr_plot_os *os, mbr_plot_error *error);

#endif
