/* A controller without Python: contexts come in as lines of numbers, actions go out.
 *
 *   simile export run/policy.safetensors pan.h
 *   cc -std=c99 -O2 -o pan main.c
 *   ./pan < contexts.csv > actions.csv
 *
 * contexts.csv holds a line for each frame, its values in the order of the training with commas between them, and nan
 * where one is missing. No header line. Of a policy that may wait, the first line of actions.csv is for the first frame
 * all the same: it is written when so many frames have come, and the last ones at the end.
 */
#include <stdio.h>

#include "pan.h"

/* Returns 1 with a context, 0 at the end, and -1 where a line is no context. */
static int read_context(double *x)
{
    int i;
    for (i = 0; i < PAN_CONTEXTS; i++)
        if (scanf(i == 0 ? "%lf" : " ,%lf", &x[i]) != 1) return i == 0 && feof(stdin) ? 0 : -1;
    return 1;
}

static void write_action(const double *action, int said)
{
    int i;
    if (said > 1) return; /* there is no answer yet */
    if (said == 1) fprintf(stderr, "the action left every reasonable range; the last one is held\n");
    for (i = 0; i < PAN_ACTIONS; i++) printf(i == 0 ? "%.17g" : ",%.17g", action[i]);
    printf("\n");
}

int main(void)
{
    static pan_state stream;
    double x[PAN_CONTEXTS], action[PAN_ACTIONS];
    int found, begun = 0, said;
    while ((found = read_context(x)) == 1) {
        if (!begun) pan_begin(&stream, x);
        begun = 1;
        said = pan_step(&stream, x, action);
        write_action(action, said);
    }
#ifdef PAN_WAIT
    while ((said = pan_flush(&stream, action)) != PAN_NO_ANSWER) write_action(action, said);
#endif
    return found == 0 ? 0 : 1;
}
