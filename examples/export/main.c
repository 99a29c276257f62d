/* A controller without Python: contexts come in as lines of numbers, actions go out.
 *
 *   simile export run/policy.safetensors pan.h
 *   cc -std=c99 -O2 -o pan main.c
 *   ./pan < contexts.csv > actions.csv
 *
 * contexts.csv holds a line for each frame, its values in the order of the training with commas between them, and nan
 * where one is missing. No header line.
 */
#include <stdio.h>

#include "pan.h"

int main(void)
{
    static pan_state stream;
    double x[PAN_CONTEXTS], action[PAN_ACTIONS];
    int i, begun = 0;
    for (;;) {
        for (i = 0; i < PAN_CONTEXTS; i++)
            if (scanf(i == 0 ? "%lf" : " ,%lf", &x[i]) != 1) return i == 0 && feof(stdin) ? 0 : 1;
        if (!begun) pan_begin(&stream, x);
        begun = 1;
        if (pan_step(&stream, x, action)) fprintf(stderr, "the action left every reasonable range; the last one is held\n");
        for (i = 0; i < PAN_ACTIONS; i++) printf(i == 0 ? "%.17g" : ",%.17g", action[i]);
        printf("\n");
    }
}
